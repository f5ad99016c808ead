#!/usr/bin/env bash
# tests/http/binary.sh - the real server: drain, cancel, comments, queue, keys, seeds, resume, clear.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 tests/http/binary.py
