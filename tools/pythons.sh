#!/usr/bin/env bash
# Runs `make test-python` and `make test-wheel` on each supported Python of this machine, but one.
#
# Usage: tools/pythons.sh BUT [ONLY]
#
# ONLY: this version, such as 3.12; it fails if that is not found.  BUT is the Python that the other
# targets of make use.  Looked for are python3.11 and later in the
# PATH and among pyenv's versions.  Each gets an environment of its own, .venv-3.12 and so on.
set -euo pipefail
cd "$(dirname "$0")/.."

# The newest version to look for; add the next one when the dependencies have wheels for it.
NEWEST=14

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

# The first one that runs, of a minor version.
find_python() {
    local candidate
    for candidate in "python3.$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"3.$1".*/bin/python; do
        # A shim of pyenv is there also for versions that are not chosen.
        if [[ $(version_of "$candidate") == "3.$1" ]]; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

but=$(version_of "$1")
only=${2:-}
found=()
for ((minor = 11; minor <= NEWEST; minor++)); do
    if [[ 3.$minor == "$but" || 3.$minor != "${only:-3.$minor}" ]]; then
        continue
    fi
    if python=$(find_python "$minor"); then
        found+=("3.$minor")
        echo "--- Python 3.$minor: $python"
        make test-python VENV=".venv-3.$minor" PYTHON="$python"
        make test-wheel VENV=".venv-3.$minor" PYTHON="$python"
    else
        echo "--- Python 3.$minor is not found in the PATH, nor among pyenv's versions"
    fi
done
if [[ -n $only && ${#found[@]} == 0 ]]; then
    echo "no Python $only here to test with" >&2
    exit 1
fi
echo "tested besides $but: ${found[*]:-none}"
