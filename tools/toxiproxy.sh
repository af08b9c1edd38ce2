#!/usr/bin/env bash
# Builds toxiproxy-server, the network that misbehaves in some tests.
#
# Usage: tools/toxiproxy.sh TARGET
#
# Without Go it builds nothing and says so: the tests that need it are skipped then, unless
# CRDTSTREAM_REQUIRE_ALL=1 asks for every test.
set -euo pipefail

VERSION=v2.12.0
target=$1

if ! command -v go >/dev/null; then
    echo "toxiproxy-server is not built: no Go here; its tests are skipped" >&2
    [[ ${CRDTSTREAM_REQUIRE_ALL:-} == 1 ]] && exit 1
    exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
CGO_ENABLED=0 GOBIN=$scratch go install \
    -ldflags "-X github.com/Shopify/toxiproxy/v2.Version=${VERSION#v}" \
    "github.com/Shopify/toxiproxy/v2/cmd/server@$VERSION"
install -m 755 "$scratch/server" "$target"
