#!/usr/bin/env bash
# Installs the Redis clients for Node.js that some tests drive.
#
# Usage: tools/node_clients.sh STAMP package.json package-lock.json
#
# They are installed beside the stamp, so that nothing is written among the sources.  Without npm,
# or where it fails, it says so: the tests that need them are skipped then, unless
# CRDTSTREAM_REQUIRE_ALL=1 asks for every test.
set -euo pipefail
. "$(dirname "$0")/optional.sh"

stamp=$1
shift

command -v npm >/dev/null ||
    give_up "npm is missing; on Debian: apt-get install nodejs npm; its tests are skipped"

mkdir -p "$(dirname "$stamp")"
cp "$@" "$(dirname "$stamp")"
"$again" npm ci --prefix "$(dirname "$stamp")" --ignore-scripts --no-audit --no-fund --loglevel=error ||
    give_up "clients for Node.js cannot be installed (the reason is above); their tests are skipped"
touch "$stamp"
