"""The suites of commands, on entries that are on disk only: same replies, same order, same digests.

They are run as they are by another pytest, in which every macro node leaves memory before each
command (``tests/cold_mode.py``).
"""

import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

# The plugin replaces methods.
pytestmark = pytest.mark.pure

ROOT = Path(__file__).resolve().parents[2]

SUITES = (
    "tests/commands/test_claiming.py",
    "tests/commands/test_commands.py",
    "tests/commands/test_delete_policies.py",
    "tests/commands/test_delivery.py",
    "tests/commands/test_idempotent_xadd.py",
    "tests/database/test_database.py",
    "tests/database/test_time_is_over.py",
    "tests/database/test_waiting.py",
    "tests/rules/test_frontier.py",
    "tests/rules/test_rules.py",
    "tests/like_redis/test_random.py",
)
# Whatever left memory takes no more appends, so there are more macro nodes: these ask how many, or
# look into them without a command.
OF_MACRO_NODES = (
    "a_replayed_log_hands_out_the_same_next",
    "acked_looks_into_a_node_only_if_all_of_it_could_go",
    "approximate_trimming",
    "arrival_is_when_the_entry_came_here",
    "delref_takes_whole_nodes",
    "replaying_the_log_restores",
    "the_limit_counts_what_goes",
    "the_limit_of_approximate_trimming",
    "undelivered_is_what_would_be_handed_out",
)
# These count how often a client is tried.
OF_TRIES = ("readers_who_claim_are_tried_once",)
# Read in place: a replayed log, as at start nobody waits.
IN_PLACE = {"replaying"}
# A transaction also reads in place what one of its commands reads only because of one before it, as
# of a group that it makes itself.  The random suite comes upon that now and then; what else a
# transaction needs is fetched before it begins.
FETCHED_BY_EXEC_FOR_ONE_IN_PLACE = 4


@pytest.mark.long
@pytest.mark.timeout(120)
def test_commands_answer_the_same_from_disk() -> None:
    left_out = " or ".join((*OF_MACRO_NODES, *OF_TRIES))
    plugins = ["-p", "tests.cold_mode", "-p", "no:cacheprovider"]
    chosen = ["-m", "not soak and not long", "-k", f"not ({left_out})", *SUITES]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-q", "--tb=short", *chosen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    told = dict(line.split(": ", 1) for line in run.stdout.splitlines() if "{" in line)
    fetched, in_place = literal_eval(told["fetched"]), literal_eval(told["in place"])
    assert {"XRANGE", "XREADGROUP", "XDEL", "XTRIM", "XCLAIM", "EXEC", "applying"} <= set(fetched)
    assert set(in_place) <= IN_PLACE | {"EXEC"}, "something changed before it had read all"
    exec_in_place = in_place.get("EXEC", 0)
    assert exec_in_place * FETCHED_BY_EXEC_FOR_ONE_IN_PLACE <= fetched["EXEC"], "EXEC does not look"
