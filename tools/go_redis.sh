#!/usr/bin/env bash
# Builds the tests that are written in Go, for go-redis, into one program.
#
# Usage: tools/go_redis.sh TARGET
#
# Without Go, or where the build fails, it says so: these tests are skipped then, unless
# CRDTSTREAM_REQUIRE_ALL=1 asks for every test.
set -euo pipefail
. "$(dirname "$0")/optional.sh"

target=$(realpath -m "$1")

command -v go >/dev/null || give_up "the tests of go-redis are not built: no Go here; they are skipped"

mkdir -p "$(dirname "$target")"
cd "$(dirname "$0")/../tests/clients/go"
CGO_ENABLED=0 "$again" go test -mod=readonly -c -o "$target" . ||
    give_up "the tests of go-redis cannot be built (the reason is above); they are skipped"
