#!/usr/bin/env bash
# tests/npm/clients/make.sh - installs the pinned clients into build/npm/clients; nothing is done
# again while package-lock.json is unchanged.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"
home=../../../build/npm/clients
mkdir -p "$home"
want=$(cat package-lock.json make.sh | sha256sum)
[ "$want" = "$(cat "$home/made" 2>/dev/null)" ] && exit 0
cp package.json package-lock.json "$home/"
cd "$home"
npm ci --no-audit --no-fund --ignore-scripts >npm.log 2>&1 || { cat npm.log; exit 1; }
printf '%s' "$want" >made
