#!/usr/bin/env bash
# tests/sim/faults.sh - plants one fault at a time and lets the simulator find it: the file of the
# fault is compiled with HOLDFAST_FAULT=n and linked before the library.  SIM_FAULT=n: that one alone.  Found within 50 seeds and
# shrunk to at most 8 turns, or the test fails.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
SEEDS=50 TURNS=60 MOST=8
DIR=$OUT/faults
mkdir -p "$DIR"
passed=0 failed=0

# number of the fault (arena/base/base.h), its file, what it does
FAULTS='1 model/slot.c a block is not copied before a write
2 tiers/anchors.c an anchor is off by one
3 tiers/record.c a block is freed under a holder
4 arena/holders.c a charge is not moved
5 http/turn/replay.c a span is put back twice
6 budget/sums.c a cap is not applied
7 model/forward.c a cut is one row off
8 tiers/nvme/spill.c a manifest is written before its pieces
9 tiers/nvme/reader.c a checksum is not looked at
10 tiers/nvme/manifest.c a hidden span is not in the manifest
11 tiers/nvme/writer.c blocks under a write are not held
12 tiers/nvme/fingerprint.c the arithmetic is not in the fingerprint'

[ -z "${SIM_FAULT:-}" ] || FAULTS=$(grep -E "^$SIM_FAULT " <<<"$FAULTS")

shared=()
for file in tests/*.c; do file=${file%.c}; shared+=("$OUT/obj/${file//\//_}.o"); done
# shellcheck disable=SC2086
$CC $CFLAGS -c tests/sim/sim.c -o "$DIR/sim.o" || exit 1
while read -r number file what; do
    object=$DIR/$number.o binary=$DIR/sim_$number log=$DIR/$number.log
    # shellcheck disable=SC2086
    $CC $CFLAGS -DHOLDFAST_FAULT="$number" -c "$file" -o "$object" &&
        $CC $CFLAGS -o "$binary" "$DIR/sim.o" "$object" "${shared[@]}" "$OUT/libholdfast.a" \
            $TEST_LIBS $LIBS || exit 1
    SIM_SEEDS=0-$SEEDS SIM_TURNS=$TURNS "$binary" 'every_turn*' >"$log" 2>&1
    found=$(grep -oE '^seed [0-9]+ fails in [0-9]+ turns' "$log" | tail -n 1)
    turns=${found#* in }; turns=${turns% turns}
    printf '%s: %s\n' "$what" "${found:-not found in $SEEDS seeds}"
    grep -E '^SIM_REPLAY' "$log" | head -c 1200
    grep -A1 -E '^SIM_REPLAY' "$log" | tail -n 1
    if [ -n "$found" ] && [ "$turns" -le "$MOST" ]; then passed=$((passed + 1))
    else failed=$((failed + 1)); fi
done <<<"$FAULTS"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
