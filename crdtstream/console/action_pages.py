"""Pages of actions: for missing values, for what would happen, and for what happened.

A form sends its values in its address, percent-encoded: keys and groups are bytes, and a field of a
form is text.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final
from urllib.parse import urlencode

from crdtstream.console import words
from crdtstream.console.actions import (
    IDLE_DIGITS_MAX,
    TEXT_LENGTH_MAX,
    Acknowledge,
    Action,
    Add,
    Claim,
    Remove,
    SetLink,
    Tune,
    name_of,
    title_of,
    values_of,
)
from crdtstream.console.layout import problem, section
from crdtstream.console.outcomes import Joining, Outcome, Secret, State
from crdtstream.console.plans import Plan
from crdtstream.page.markup import Child, Markup, element

ACT: Final = "/console/act/"
OUTCOME: Final = "/console/outcome/"
# Values of an address, inside one field of a form.
PACKED: Final = "of"
PROOF: Final = "proof"
IDLE_MS_DEFAULT: Final = 60_000
CONSUMERS_OFFERED: Final = 100
CONSUMER_LIST: Final = "consumers"


def act_path(name: str, values: Sequence[tuple[str, str | bytes]]) -> str:
    """Address of a page that asks for an action."""
    return f"{ACT}{name}?{urlencode(values)}"


def path_of(action: Action) -> str:
    """Address at which an action is asked for and done."""
    return act_path(name_of(action), values_of(action))


def back_of(action: Action) -> str:
    """Address of the page from which an action is reached."""
    match action:
        case SetLink():
            return "/"
        case Acknowledge() | Claim():
            return pending_path(action.key, action.group)
        case Tune():
            return "/console/node"
        case Add() | Remove():
            return "/console/members"


def pending_path(key: bytes, group: bytes, **further: str) -> str:
    """Address of the pending entries of a group."""
    values: dict[str, str | bytes] = {"key": key, "group": group, **further}
    return f"/console/pending?{urlencode(values)}"


def packed(values: Sequence[tuple[str, str | bytes]]) -> Markup:
    """Values that a form sends besides what is typed."""
    return element("input", type="hidden", name=PACKED, value=urlencode(values))


# --- Before ---------------------------------------------------------------------------------------


def asks(action: Action, plan: Plan, proof: str) -> list[Child]:
    """The consequences of an action, and a button that starts it."""
    back = back_of(action)
    if plan.obstacle:
        return [
            section("Not possible", problem(plan.obstacle, "Nothing was changed.")),
            element("p", element("a", "Back", href=back)),
        ]
    return [
        section(
            "What happens",
            element("ul", [element("li", text) for text in plan.does], class_="sentences"),
            element("p", plan.undoing, class_="undoing"),
            element(
                "form",
                element("input", type="hidden", name=PROOF, value=proof),
                element("button", title_of(action), type="submit"),
                element("a", "Change nothing", href=back),
                method="post",
                action=path_of(action),
                class_="decide",
            ),
        )
    ]


# The form of a memory value; by parameter the meaning of 0, as the settings have it.
MEMORY_VALUE: Final = "a memory value"
MEMORY_VALUES: Final = "a number of bytes, or one with a unit, such as 4gb"
NO_LIMIT: Final = "no limit"
ZERO: Final = {
    "bootstrap_backlog_size": "nothing is kept",
    "bootstrap_bytes_per_s": NO_LIMIT,
    "checkpoint_log_bytes": "the size of the log causes no checkpoint",
    "maxdisk": NO_LIMIT,
    "maxmemory": NO_LIMIT,
    "replication_backlog_size": "nothing is kept",
}


def _must_be(parameter: str, allowed: Sequence[str]) -> str:
    if not allowed:
        return ""
    if allowed[0] != MEMORY_VALUE:
        return f"It must be {allowed[0]}."
    zero = f" 0 means: {ZERO[parameter]}." if parameter in ZERO else ""
    return f"It must be {MEMORY_VALUES}.{zero}"


def asks_for_value(
    parameter: str, present: str, allowed: Sequence[str], *, is_choice: bool
) -> list[Child]:
    """The value of a tunable: one of a few words, or typed."""
    if is_choice:
        options = [
            element("option", one, value=one, selected="" if one == present else None)
            for one in allowed
        ]
        field = element("select", options, id="value", name="value")
    else:
        field = element(
            "input",
            id="value",
            name="value",
            value=present,
            required="",
            maxlength=str(TEXT_LENGTH_MAX),
            autocomplete="off",
            spellcheck="false",
            aria_describedby="allowed",
        )
    return [
        section(
            "New value",
            element("p", _must_be(parameter, allowed), id="allowed") if not is_choice else None,
            _form(
                "tune",
                "/console/node",
                packed([("parameter", parameter)]),
                element("label", f"{parameter} in this region", for_="value"),
                field,
            ),
            note="The next page says what it does, and asks.",
        )
    ]


def _form(name: str, back: str, *fields: Child) -> Markup:
    """A form for the values of an action, whose next page asks; labels and fields take turns."""
    return element(
        "form",
        element("div", *fields, class_="fields-asked"),
        element(
            "div",
            element("button", "Go on", type="submit"),
            element("a", "Change nothing", href=back),
            class_="decide",
        ),
        method="get",
        action=f"{ACT}{name}",
    )


def asks_for_region() -> list[Child]:
    """Name and addresses of a region that is to join."""
    fields = [
        ("name", "Name", "eu", True),
        ("grpc", "gRPC, where the other regions reach it", "10.0.0.4:7384", True),
        ("resp", "Redis clients, if it is announced", "10.0.0.4:6384", False),
        ("http", "HTTP, if it is announced", "10.0.0.4:8384", False),
    ]
    return [
        section(
            "New region",
            _form(
                "add",
                "/console/members",
                [
                    (
                        element("label", label, for_=name),
                        element(
                            "input",
                            id=name,
                            name=name,
                            required="" if is_required else None,
                            maxlength=str(TEXT_LENGTH_MAX),
                            placeholder=example,
                            autocomplete="off",
                            spellcheck="false",
                        ),
                    )
                    for name, label, example, is_required in fields
                ],
            ),
            note="The next page says what happens, and asks.",
        )
    ]


def asks_for_consumer(key: bytes, group: bytes, ids: Sequence[bytes]) -> list[Child]:
    """The consumer that is to get pending entries."""
    values = [("key", key), ("group", group), *(("id", one) for one in ids)]
    return [
        section(
            "New consumer",
            _form(
                "claim",
                pending_path(key, group),
                packed(values),
                element("label", "Consumer", for_="consumer"),
                element(
                    "input",
                    id="consumer",
                    name="consumer",
                    list=CONSUMER_LIST,
                    required="",
                    maxlength=str(TEXT_LENGTH_MAX),
                    autocomplete="off",
                    spellcheck="false",
                ),
                element("label", "Idle for at least, in ms", for_="idle"),
                element(
                    "input",
                    id="idle",
                    name="idle",
                    required="",
                    inputmode="numeric",
                    pattern="[0-9]+",
                    maxlength=str(IDLE_DIGITS_MAX),
                    value=str(IDLE_MS_DEFAULT),
                    autocomplete="off",
                ),
            ),
            note=f"{words.number_of(len(ids), 'entry', 'entries')} of group"
            f" {words.name(group)}. An entry that its consumer touched since is not taken from it."
            " The next page says what happens, and asks.",
        )
    ]


def consumers_offered(names: Iterable[bytes]) -> Markup:
    """Consumers that the field of a claim offers: the first ones whose names it can hold."""
    texts = (name.decode() for name in names if name.isascii() and len(name) <= TEXT_LENGTH_MAX)
    options = [element("option", value=one) for one in islice(texts, CONSUMERS_OFFERED)]
    return element("datalist", options, id=CONSUMER_LIST)


# --- Behind ---------------------------------------------------------------------------------------


def outcome(found: Outcome, joining: Joining | None) -> list[Child]:
    """The outcome of an action, as far as it has one.

    Args:
        joining: of the region that was added; None: none was.
    """
    state, secret = found.state.value, found.secret
    is_followed = found.state is State.RUNNING or joining is Joining.AWAITED
    return [
        section(
            found.title,
            element(
                "div",
                element("p", element("span", state, class_="state", data_state=state)),
                element("ul", [element("li", line) for line in found.lines], class_="sentences"),
                None if joining is None else element("p", joining.value),
                None if secret is None or joining is not Joining.AWAITED else _secret(secret),
                element(
                    "p",
                    element("a", "Reload this page", href=f"{OUTCOME}{found.number}"),
                    " to see how far it is. It goes on if you leave.",
                )
                if found.state is State.RUNNING
                else None,
                role="status",
                data_outcome=state,
                data_followed="" if is_followed else None,
            ),
        ),
        element("p", element("a", "Back", href=found.back)),
    ]


def _secret(secret: Secret) -> Markup:
    return element(
        "div",
        element("p", secret.about),
        element("pre", element("code", secret.text), tabindex="0"),
        element("p", secret.then),
        element("pre", element("code", secret.command), tabindex="0"),
        class_="secret",
    )
