# Sourced by what builds programs that some tests drive.

# Say why a program is not there, and end: a failure only where every test is asked for.
give_up() {
    # Of what was tried: 75 if a download failed.
    local status=$?
    echo "$1" >&2
    [[ ${CRDTSTREAM_REQUIRE_ALL:-} != 1 ]] || exit "$status"
    exit 0
}

# Run a command that downloads something; see tools/again.sh.
again="$(realpath "$(dirname "$0")")/again.sh"
