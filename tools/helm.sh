#!/usr/bin/env bash
# Builds helm, which checks and renders the chart in deploy/helm.
#
# Usage: tools/helm.sh TARGET
#
# Without Go, or where the build fails, it says so: the tests that need it are skipped then, unless
# CRDTSTREAM_REQUIRE_ALL=1 asks for every test.
set -euo pipefail
. "$(dirname "$0")/optional.sh"

VERSION=v3.19.0
target=$1

command -v go >/dev/null || give_up "helm is not built: no Go here; its tests are skipped"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# It renders a few charts, so its speed does not matter, and that of the build does.
CGO_ENABLED=0 GOBIN=$scratch "$again" go install -gcflags=all=-N -ldflags "-s -w" \
    "helm.sh/helm/v3/cmd/helm@$VERSION" ||
    give_up "helm cannot be built (the reason is above); its tests are skipped"
install -D -m 755 "$scratch/helm" "$target"
