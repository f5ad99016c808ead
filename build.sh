#!/usr/bin/env bash
# build.sh - words in, build/ out.  No generator, no configure: compiles what changed, links, runs.
#
#   ./build.sh serve [flags]          install what is missing, build, serve on 127.0.0.1:8080
#   ./build.sh test [GROUP|FILE...]   build and run tests; closes with `N passed, N failed`
#
# Other words: deps [--dry-run]  cpu  debug  release  asan  ubsan  tsan  bench  tidy  clean
# Groups of tests: arena budget model tiers http fuzz sim (default: all of these), slow
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1

usage() { sed -n '2,9s/^# \{0,1\}//p' build.sh; }
die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

# ---------------------------------------------------------------- what the system must have
# pkg-config module (or =command, /file, ^python module) and the Debian package that brings it
NEEDS='libmicrohttpd libmicrohttpd-dev
msgpack|msgpack-c libmsgpack-dev
libxxhash libxxhash-dev
jemalloc libjemalloc-dev
libpcre2-8 libpcre2-dev
libutf8proc libutf8proc-dev
jansson libjansson-dev
libisal libisal-dev
inih libinih-dev
libedit libedit-dev
libdivsufsort libdivsufsort-dev
cmocka libcmocka-dev
=gcc gcc
/usr/include/stdio.h libc6-dev
=pkg-config pkg-config
=curl curl
=/usr/bin/python3 python3
^numpy python3-numpy'

have() {
    case $1 in
    =*) command -v "${1#=}" >/dev/null 2>&1 ;;
    /*) [ -e "$1" ] ;;
    ^*) /usr/bin/python3 -c "import ${1#^}" >/dev/null 2>&1 ;;
    *) local m; for m in ${1//|/ }; do pkg-config --exists "$m" 2>/dev/null && return 0; done; return 1 ;;
    esac
}

missing() {
    local need package
    while read -r need package; do have "$need" || printf '%s ' "$package"; done <<<"$NEEDS"
}

deps() {
    local list line sudo=
    list=$(missing)
    [ -n "$list" ] || return 0
    [ "$(id -u)" = 0 ] || sudo='sudo '
    line="${sudo}apt-get install -y --no-install-recommends ${list% }"
    printf 'build.sh: missing packages; running: %s\n' "$line"
    [ "${1:-}" = --dry-run ] && return 0
    command -v apt-get >/dev/null || die "no apt-get here: install the packages above by hand"
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive ${sudo:+sudo} apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive ${sudo:+sudo} apt-get install -y -qq --no-install-recommends $list ||
        die "the line above failed"
    list=$(missing)
    [ -z "$list" ] || die "still missing after the install: $list"
}

# ---------------------------------------------------------------- compile and link
MODE=release
ROOMS='arena budget model tiers http'

settings() {
    OUT=build
    [ "$MODE" = release ] || OUT=build/$MODE
    CC=${CC:-gcc}
    CFLAGS="-std=c11 -D_GNU_SOURCE -I. -g -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
            -ffp-contract=off -fno-math-errno -fvisibility=hidden -pthread"
    local heap=jemalloc
    case $MODE in
    release) CFLAGS="$CFLAGS -O2" ;;
    debug) CFLAGS="$CFLAGS -O1 -DHOLDFAST_DEBUG" ;;
    asan) CFLAGS="$CFLAGS -O1 -DHOLDFAST_DEBUG -DHOLDFAST_NO_JEMALLOC -fno-omit-frame-pointer
            -fsanitize=address,undefined -fno-sanitize-recover=all"; heap= ;;
    ubsan) CFLAGS="$CFLAGS -O1 -DHOLDFAST_DEBUG -fsanitize=undefined -fno-sanitize-recover=all" ;;
    tsan) CFLAGS="$CFLAGS -O1 -DHOLDFAST_DEBUG -DHOLDFAST_NO_JEMALLOC -fsanitize=thread"; heap= ;;
    esac
    local msgpack=msgpack
    pkg-config --exists msgpack 2>/dev/null || msgpack=msgpack-c
    # shellcheck disable=SC2086
    CFLAGS="$CFLAGS $(pkg-config --cflags libmicrohttpd $msgpack libxxhash libpcre2-8 libutf8proc jansson libisal inih libedit libdivsufsort $heap)"
    # shellcheck disable=SC2086
    LIBS="$(pkg-config --libs libmicrohttpd $msgpack libxxhash libpcre2-8 libutf8proc jansson libisal inih libedit libdivsufsort $heap) -lm -pthread"
    TEST_LIBS="$(pkg-config --libs cmocka)"
    mkdir -p "$OUT/obj" "$OUT/tests"
    local now="$CC $CFLAGS $LIBS"
    if [ "$now" != "$(cat "$OUT/flags" 2>/dev/null)" ]; then
        rm -rf "$OUT/obj" "$OUT/tests" "$OUT/libholdfast.a"
        mkdir -p "$OUT/obj" "$OUT/tests"
        printf '%s' "$now" >"$OUT/flags"
    fi
}

object_of() { local s=${1%.c}; printf '%s/obj/%s.o' "$OUT" "${s//\//_}"; }

# true when the object of $1 is older than the source or anything it included or embedded
stale() {
    local object=$1 file rest
    [ -f "$object" ] && [ -f "${object%.o}.d" ] || return 0
    while read -r rest; do
        for file in ${rest%\\}; do
            case $file in *:) continue ;; esac
            [ -f "$file" ] && [ ! "$file" -nt "$object" ] || return 0
        done
    done <"${object%.o}.d"
    case $object in *_embedded.o)
        for file in profiles/*.conf profiles/default-model/*.*; do
            [ ! "$file" -nt "$object" ] || return 0
        done ;;
    esac
    return 1
}

# compiles every stale source given, two at a time; sets COMPILED
compile() {
    local source object list=()
    COMPILED=0
    for source; do
        object=$(object_of "$source")
        if stale "$object"; then list+=("$source"); fi
    done
    COMPILED=${#list[@]}
    [ "$COMPILED" -gt 0 ] || return 0
    export CC CFLAGS OUT
    printf '%s\n' "${list[@]}" | xargs -P "$(nproc)" -I{} bash -c '
        s=$1; o=${s%.c}; o=$OUT/obj/${o//\//_}.o
        case $s in model/cpu/*) more=-O3 ;; *) more= ;; esac
        case $CFLAGS in *-O1*) more= ;; esac
        $CC $CFLAGS $more -MMD -MP -c "$s" -o "$o.new" -MF "${o%.o}.d" && mv "$o.new" "$o" ||
            { rm -f "$o" "$o.new"; exit 255; }' _ {} || die "compilation failed"
}

build_cpu() {
    local sources library=$OUT/libholdfast.a objects=() source
    # shellcheck disable=SC2086
    mapfile -t sources < <(find $ROOMS -name '*.c' | sort)
    compile "${sources[@]}"
    for source in "${sources[@]}"; do
        [ "$source" = http/main.c ] || objects+=("$(object_of "$source")")
    done
    local names="${objects[*]}"
    if [ "$COMPILED" -gt 0 ] || [ ! -f "$library" ] || [ "$names" != "$(cat "$OUT/objects" 2>/dev/null)" ]; then
        rm -f "$library"
        ar rcs "$library" "${objects[@]}" || die "ar failed"
        printf '%s' "$names" >"$OUT/objects"
    fi
    if [ -f http/main.c ] && { [ ! -f "$OUT/holdfast" ] || [ "$library" -nt "$OUT/holdfast" ] ||
        [ "$(object_of http/main.c)" -nt "$OUT/holdfast" ]; }; then
        # shellcheck disable=SC2086
        $CC $CFLAGS -o "$OUT/holdfast" "$(object_of http/main.c)" "$library" $LIBS || die "linking failed"
    fi
}

# ---------------------------------------------------------------- tests
GROUPS_DEFAULT='arena budget model tiers http fuzz sim'

# the test sources and scripts of a word: a group, or one file of it as group/name
tests_of() {
    local word=$1
    if [ -d "tests/$word" ]; then
        find "tests/$word" -maxdepth 1 \( -name '*.c' -o -name '*.sh' \) | sort
    elif [ -f "tests/$word.c" ]; then printf 'tests/%s.c\n' "$word"
    elif [ -f "tests/$word.sh" ]; then printf 'tests/%s.sh\n' "$word"
    else die "no tests named $word (groups: $GROUPS_DEFAULT slow)"
    fi
}

# links tests/GROUP/NAME.c against the library: an included .c takes precedence over the archive's
link_test() {
    local source=$1 binary
    binary=$OUT/tests/$(basename "$(dirname "$source")")_$(basename "${source%.c}")
    local object; object=$(object_of "$source")
    if [ ! -f "$binary" ] || [ "$object" -nt "$binary" ] || [ "$OUT/libholdfast.a" -nt "$binary" ] ||
       [ "$(object_of tests/test.c)" -nt "$binary" ]; then
        local shared=() file
        for file in tests/*.c; do shared+=("$(object_of "$file")"); done
        ar rcs "$OUT/libtests.a" "${shared[@]}"
        # shellcheck disable=SC2086
        $CC $CFLAGS -o "$binary" "$object" -Wl,--whole-archive "$OUT/libtests.a" -Wl,--no-whole-archive \
            "$OUT/libholdfast.a" $TEST_LIBS $LIBS || die "linking $source failed"
    fi
    printf '%s' "$binary"
}

run_tests() {
    local words=("$@") word file files=() sources=() passed=0 failed=0 skipped=0 line bad=()
    [ ${#words[@]} -gt 0 ] || read -ra words <<<"$GROUPS_DEFAULT"
    for word in "${words[@]}"; do
        [ -e "tests/$word" ] || [ -e "tests/$word.c" ] || [ -e "tests/$word.sh" ] || {
            case " $GROUPS_DEFAULT slow " in *" $word "*) continue ;; *) die "no tests named $word (groups: $GROUPS_DEFAULT slow)" ;; esac; }
        while read -r file; do files+=("$file"); done < <(tests_of "$word")
    done
    for file in "${files[@]}"; do case $file in *.c) sources+=("$file") ;; esac; done
    compile tests/*.c "${sources[@]}"
    mkdir -p "$OUT/logs"
    export HOLDFAST=$PWD/$OUT/holdfast OUT CC CFLAGS LIBS TEST_LIBS
    export XDG_CACHE_HOME=$PWD/$OUT/tests/home  # no test touches the user's own cache folder
    rm -rf "$XDG_CACHE_HOME"
    for file in "${files[@]}"; do
        local log command rc started=$SECONDS
        log=$OUT/logs/$(basename "$(dirname "$file")")_$(basename "${file%.*}").log
        case $file in
        *.c) command=$(link_test "$file") || die "linking $file failed" ;;
        *) command="bash $file" ;;
        esac
        # shellcheck disable=SC2086
        timeout "${HOLDFAST_TEST_TIMEOUT:-1200}" $command >"$log" 2>&1 </dev/null
        rc=$?
        line=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$log" | tail -n 1)
        local p=0 f=0 s=0
        if [ -n "$line" ]; then
            p=${line%% passed*}; f=${line#*passed, }; f=${f%% failed*}
            case $line in *skipped) s=${line##*failed, }; s=${s%% skipped*} ;; esac
        fi
        if [ $rc -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
        passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + s))
        printf '%-44s %4d passed, %d failed%s  %ds\n' "$file" "$p" "$f" \
            "$([ "$s" -gt 0 ] && printf ', %d skipped' "$s")" "$((SECONDS - started))"
        grep -E '^\[ SKIPPED  \]|^skipped:' "$log" | grep -v 'test_' | sed 's/^/    /'
        if [ "$f" -gt 0 ] || [ $rc -ne 0 ]; then
            bad+=("$log")
            printf -- '---- %s (exit %d, log %s)\n' "$file" "$rc" "$log"
            tail -n 60 "$log"
            printf -- '----\n'
        fi
    done
    if [ "$skipped" -gt 0 ]; then printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    else printf '%d passed, %d failed\n' "$passed" "$failed"; fi
    [ "$failed" -eq 0 ] && [ ${#bad[@]} -eq 0 ] && [ "$passed" -gt 0 ]
}

# ---------------------------------------------------------------- words
[ $# -gt 0 ] || { usage; exit 2; }
while [ $# -gt 0 ]; do
    word=$1
    shift
    case $word in
    release | debug | asan | ubsan | tsan) MODE=$word; [ $# -gt 0 ] || { deps; settings; build_cpu; } ;;
    deps) deps "${1:-}"; [ "${1:-}" != --dry-run ] || shift ;;
    cpu) deps; settings; build_cpu ;;
    cuda) die "the CUDA backend is not part of this version: build with ./build.sh cpu" ;;
    tidy) deps; settings; build_cpu; bash tests/tidy.sh; exit $? ;;
    test) deps; settings; build_cpu; run_tests "$@"; exit $? ;;
    serve | bench) deps; settings; build_cpu; exec "$OUT/holdfast" "$word" "$@" ;;
    clean) rm -rf build ;;
    -h | --help | help) usage ;;
    *) printf 'build.sh: no word "%s"\n' "$word" >&2; usage >&2; exit 2 ;;
    esac
done
