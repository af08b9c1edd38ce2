"""Planted bugs in the console: rights of viewers, what they cost, what a page leaves out."""

from typing import Final

from tests.mutations.mutation import Mutation

GUARD_PY: Final = "crdtstream/console/guard.py"
ACTING_PY: Final = "crdtstream/console/acting.py"
FEED_PY: Final = "crdtstream/console/feed.py"
LIVE_PY: Final = "crdtstream/console/live.py"
GUARD: Final = "tests/console/test_guard.py::"
CSS: Final = "crdtstream/console/static/console.css"
JS: Final = "crdtstream/console/static/console.js"
BROWSER: Final = "tests/console/test_browser.py::"
READING: Final = "tests/console/test_bounded_reading.py::"
FEED: Final = "tests/console/test_feed.py::"
ACTING: Final = "tests/console/test_acting.py::"

CONSOLE: Final = (
    Mutation(
        "console-asks-nobody-on-this-machine",
        GUARD_PY,
        "        if verdict is Verdict.ADMITTED and rights is not None:",
        "        if self._is_local:\n"
        "            from crdtstream.access.rights import UNLIMITED\n\n"
        "            verdict, rights = Verdict.ADMITTED, UNLIMITED\n"
        "        if verdict is Verdict.ADMITTED and rights is not None:",
        (GUARD + "test_every_page_asks_on_each_port_once_there_is_a_password",),
        "every user of the machine reads entries that the Redis port keeps from them",
    ),
    Mutation(
        "console-figures-never-wrap-on-a-phone",
        CSS,
        "{ white-space: normal; overflow-wrap: break-word; text-wrap: balance; }",
        "{ white-space: nowrap; }",
        (BROWSER + "test_no_text_leaves_its_card",),
        "on a phone long figures lie over their names, and over the next cell",
    ),
    Mutation(
        "console-names-of-figures-break-within-words",
        CSS,
        ".facts dt { color: var(--quiet); overflow-wrap: normal; }",
        ".facts dt { color: var(--quiet); }",
        (BROWSER + "test_no_text_leaves_its_card",),
        "beside a long value a name is broken within a word",
    ),
    Mutation(
        "viewers-keep-their-rights",
        LIVE_PY,
        "                if not self._still_may():\n                    return\n",
        "",
        (FEED + "test_a_viewer_that_loses_the_right_sees_no_more",),
        "a user who was deleted goes on watching for an hour",
    ),
    Mutation(
        "figures-are-gathered-for-nobody",
        FEED_PY,
        "            if not self._viewers:\n                self._stop()\n",
        "",
        (FEED + "test_without_viewers_nothing_is_gathered",),
        "a page that was once open costs the node for good",
    ),
    Mutation(
        "console-text-is-pale",
        CSS,
        "--text: #1c2127; --quiet: #5a6470;",
        "--text: #1c2127; --quiet: #a9b1ba;",
        (BROWSER + "test_a_page_is_clear_in_each_look[overview-desk-light]",),
        "readers with weak eyes cannot read captions and notes",
    ),
    Mutation(
        "console-is-wider-than-a-phone",
        CSS,
        "  table, tbody { display: block; }\n",
        "  table { min-width: 50rem; }\n",
        (BROWSER + "test_a_page_is_clear_in_each_look[overview-phone-dark]",),
        "on a phone half of each row is out of sight",
    ),
    Mutation(
        "a-page-ignores-changes",
        JS,
        "    show(change.cells);\n",
        "",
        (BROWSER + "test_figures_change_without_a_reload",),
        "a page says that it is live and shows the figures of its loading",
    ),
    Mutation(
        "an-old-page-goes-on",
        JS,
        "  if (whole.assets !== body.dataset.assets) {",
        "  if (false) {",
        (BROWSER + "test_an_old_page_says_so_after_an_upgrade",),
        "after an upgrade a page of the version before shows what it no longer understands",
    ),
    Mutation(
        "a-silent-node-looks-live",
        JS,
        '    setLive("off", "no news since");\n',
        "",
        (BROWSER + "test_a_page_says_when_its_node_is_gone_and_goes_on_when_it_is_back",),
        "figures of a node that is gone look as if they were of now",
    ),
    Mutation(
        "console-searches-side-by-side",
        "crdtstream/console/app.py",
        "        async with self._searching:\n",
        "        if self._searching:\n",
        (READING + "test_one_search_at_a_time",),
        "many searches at once take so many turns that clients wait for seconds",
    ),
    Mutation(
        "pages-that-are-not-seen-watch",
        JS,
        "  if (document.hidden) {",
        "  if (false) {",
        (BROWSER + "test_more_pages_are_open_than_a_browser_has_connections",),
        "the seventh tab gets no page of the node at all",
    ),
    Mutation(
        "console-acts-for-other-sites",
        GUARD_PY,
        "    if request.method not in READING:\n        return not _is_of_this_site(request)\n",
        "",
        (ACTING + "test_a_form_of_another_site_is_refused",),
        "a page of another site sends a form, and the browser adds user and password",
    ),
    Mutation(
        "console-acts-before-it-asks",
        ACTING_PY,
        "        plan = await self._planner.plan(action)\n",
        "        plan = await self._planner.plan(action)\n"
        "        if not plan.obstacle:\n"
        "            [line async for line in self._planner.act(action)]\n",
        (ACTING + "test_asking_changes_nothing",),
        "a link, or a browser that loads it ahead, changes the database",
    ),
    Mutation(
        "console-says-that-nothing-changed-when-it-may",
        "crdtstream/admin/operating.py",
        "    except (UndecidedError, TuneNotKnownError) as error:\n"
        '        raise NotKnownError(f"{error}") from error\n'
        "    except (",
        "    except UndecidedError as error:\n"
        '        raise NotKnownError(f"{error}") from error\n'
        "    except (TuneNotKnownError, ",
        (ACTING + "test_a_setting_that_may_be_lost_with_the_power_is_told_as_not_known",),
        "a setting that an operator believes unchanged is another one after a restart",
    ),
    Mutation(
        "console-hides-the-names-of-bars",
        CSS,
        "  td.curve svg { flex: 0 1 8rem; min-width: 0; }\n",
        "  tbody td.curve::before { display: none; }\n",
        (BROWSER + "test_on_a_phone_each_figure_has_its_name_beside_it",),
        "on a phone nobody knows what a bar shows",
    ),
)
