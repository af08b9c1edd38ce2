#!/usr/bin/env bash
# Runs a command that downloads something: up to three times, if it fails.
#
# Usage: tools/again.sh COMMAND [WORD ...]
#
# Exit status: 0 it succeeded; 75 it failed each time, so most likely a registry does not answer.
set -uo pipefail

for pause in 5 20 0; do
    "$@" && exit 0
    if ((pause > 0)); then
        echo "failed; again in $pause s: $*" >&2
        sleep "$pause"
    fi
done
echo "failed three times: $*" >&2
exit 75
