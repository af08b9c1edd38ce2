#!/usr/bin/env bash
# Fetches Redis's own tests, which nodes must pass: from the source package of Redis 8 in Debian.
#
# Usage: tools/redis_tests.sh STAMP
#
# Nothing else of that source is unpacked, and nothing is compiled.  Debian's archive is the one that
# this machine has packages from, whichever release of Debian it runs.  On other systems, and where
# something fails, it says so: these tests are skipped then, unless CRDTSTREAM_REQUIRE_ALL=1 asks for
# every test; REDIS_SOURCE=FOLDER names the sources of a Redis to take them from.
set -euo pipefail
. "$(dirname "$0")/optional.sh"

# The first release of Debian with Redis 8.
SUITE=trixie
KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
stamp=$(realpath -m "$1")

command -v apt-get >/dev/null && [[ -e $KEYS ]] ||
    give_up "Redis's own tests are not fetched: this is no Debian; they are skipped"
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
[[ -n $archive ]] ||
    give_up "Redis's own tests are not fetched: no archive of Debian in /etc/apt; they are skipped"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{parts,lists/partial,cache/archives/partial}
chmod -R a+rX "$scratch"
printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
    "$archive" "$SUITE" "$KEYS" >"$scratch/parts/debian.sources"
# Lists of its own, so the machine's stay as they are.
apt=(apt-get -qq -o "APT::Sandbox::User=$(id -un)" -o "Dir::Etc::sourcelist=$scratch/none"
    -o "Dir::Etc::sourceparts=$scratch/parts" -o "Dir::State::lists=$scratch/lists"
    -o "Dir::Cache=$scratch/cache")
touch "$scratch/none"
cd "$scratch"
"$again" "${apt[@]}" update && "$again" "${apt[@]}" source --download-only --tar-only redis ||
    give_up "Redis's own tests cannot be had (the reason is above); they are skipped"

folder=$(dirname "$stamp")
rm -rf "$folder"
mkdir -p "$folder"
tar --extract --file redis_*.orig.tar.* --directory "$folder" --strip-components 1 \
    --wildcards --no-wildcards-match-slash \
    '*/tests' '*/LICENSE.txt'
touch "$stamp"
