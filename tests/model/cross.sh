#!/usr/bin/env bash
# cross.sh - the model for 64-bit ARM: built by aarch64-linux-gnu-gcc with libc alone, run by
# qemu-aarch64, its bits held to an x86 machine's (tests/golden/levels.txt).
#
# CROSS_TESTS names other files of tests/model (ops_product, ops_gdn, ...): minutes under qemu.  What
# needs other libraries (JSON, the tokenizer, HTTP) is left out: tests/cross/absent.c.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
gcc=aarch64-linux-gnu-gcc
for tool in $gcc qemu-aarch64; do
    command -v $tool >/dev/null || {
        printf 'skipped: no %s (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)\n' $tool
        printf '0 passed, 0 failed, 1 skipped\n'
        exit 0
    }
done
dir=build/cross
mkdir -p $dir/include $dir/obj
cp "$(printf '#include <xxhash.h>\n' | gcc -M -xc - | tr ' ' '\n' | grep 'xxhash\.h$')" $dir/include/
flags="-std=c11 -D_GNU_SOURCE -I. -I$dir/include -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion
       -Werror -ffp-contract=off -fno-math-errno -fvisibility=hidden -pthread -DXXH_INLINE_ALL
       -DHOLDFAST_NO_JEMALLOC -DTEST_CROSS"
sources=$(ls arena/*.c arena/base/{base,err,clock,hash,file,file_log,log,rng,text,vocab,jsontext}.c \
    model/*.c model/cpu/*.c model/family/*.c tests/cross/*.c | grep -v -e model/tiny.c -e model/embedded.c)
export gcc flags dir
# shellcheck disable=SC2016,SC2086
printf '%s\n' $sources | xargs -P "$(nproc)" -I{} bash -c \
    's={}; $gcc $flags -c $s -o $dir/obj/${s//\//_}.o' || { printf '0 passed, 1 failed\n'; exit 1; }
passed=0 failed=0
for test in ${CROSS_TESTS:-levels ops_rows}; do
    # shellcheck disable=SC2086
    if $gcc $flags -static -o $dir/$test tests/model/$test.c $dir/obj/*.o -lm &&
        TMPDIR=$dir LEVELS_PROMPTS=${LEVELS_PROMPTS:-3} qemu-aarch64 $dir/$test >$dir/$test.log 2>&1; then
        passed=$((passed + $(sed -n 's/^\([0-9]*\) passed.*/\1/p' $dir/$test.log | tail -n 1)))
    else
        failed=$((failed + 1))
    fi
    grep -v ' info ' $dir/$test.log
done
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
