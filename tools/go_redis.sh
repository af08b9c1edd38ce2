#!/usr/bin/env bash
# Builds the tests that are written in Go, for go-redis, into one program.
#
# Usage: tools/go_redis.sh TARGET
#
# Without Go it builds nothing and says so: these tests are skipped then, unless
# CRDTSTREAM_REQUIRE_ALL=1 asks for every test.
set -euo pipefail

target=$(realpath -m "$1")

if ! command -v go >/dev/null; then
    echo "the tests of go-redis are not built: no Go here; they are skipped" >&2
    [[ ${CRDTSTREAM_REQUIRE_ALL:-} == 1 ]] && exit 1
    exit 0
fi

mkdir -p "$(dirname "$target")"
cd "$(dirname "$0")/../tests/clients/go"
CGO_ENABLED=0 go test -mod=readonly -c -o "$target" .
