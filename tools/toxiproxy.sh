#!/usr/bin/env bash
# Builds toxiproxy-server, the network that misbehaves in some tests.
#
# Usage: tools/toxiproxy.sh TARGET
#
# Without Go, or where the build fails, it says so: the tests that need it are skipped then, unless
# CRDTSTREAM_REQUIRE_ALL=1 asks for every test.
set -euo pipefail
. "$(dirname "$0")/optional.sh"

VERSION=v2.12.0
target=$1

command -v go >/dev/null || give_up "toxiproxy-server is not built: no Go here; its tests are skipped"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
CGO_ENABLED=0 GOBIN=$scratch "$again" go install \
    -ldflags "-X github.com/Shopify/toxiproxy/v2.Version=${VERSION#v}" \
    "github.com/Shopify/toxiproxy/v2/cmd/server@$VERSION" ||
    give_up "toxiproxy-server cannot be built (the reason is above); its tests are skipped"
install -m 755 "$scratch/server" "$target"
