#!/usr/bin/env bash
# tests/http/hostile.sh - what no client should send: each is a clear error or a closed connection,
# the server lives on, and what it took is given back.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec /usr/bin/python3 tests/http/hostile.py
