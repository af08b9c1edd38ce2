"""Planted bugs in the replay of reports: which files are opened, and what a moment shows."""

from typing import Final

from tests.mutations.mutation import Mutation

JS: Final = "crdtstream/console/static/replay.js"
BROWSER: Final = "tests/replay/test_browser.py::"

REPLAY: Final = (
    Mutation(
        "replay-does-not-show-what-it-asked-for",
        JS,
        "    show(found.cells);\n",
        "",
        (BROWSER + "test_the_moment_is_moved_by_keyboard",),
        "the slider moves, and the figures stay",
    ),
)
