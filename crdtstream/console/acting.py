"""Actions over HTTP: a page asks, a form acts, another page says what happened.

    GET  /console/act/NAME?…   what would happen, with a proof in its form; changes nothing
    POST the same address      checks origin, rights and proof, acts, and leads to the outcome
    GET  /console/outcome/N    what happened; reloading it repeats nothing

The check at the POST counts: a page shows buttons to those who have the right, and a user may lose
it meanwhile.  What is done is done as commands and operators do it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias
from urllib.parse import parse_qsl

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from crdtstream.access.rights import administers
from crdtstream.admin.operating import NotDoneError, NotKnownError
from crdtstream.console import action_pages
from crdtstream.console.action_pages import OUTCOME, PACKED, PROOF, back_of, path_of
from crdtstream.console.actions import (
    VALUES,
    Acknowledge,
    Action,
    ActionError,
    Claim,
    SetLink,
    action_of,
    may_act,
    may_claim,
    may_operate,
    name_of,
    title_of,
    values_of,
)
from crdtstream.console.asked import QUERY_BYTES_MAX, AskedForError, no_right_to_act
from crdtstream.console.console_sources import ConsoleSources
from crdtstream.console.guard import STILL_MAY, rights_of
from crdtstream.console.outcomes import Joining, Outcome, Outcomes, OutcomesFullError, Secret, State
from crdtstream.console.plans import Planner
from crdtstream.console.proofs import ProofError, Proofs
from crdtstream.core.size import Seconds, Size
from crdtstream.http.guard import verdict_of
from crdtstream.page.markup import Child
from crdtstream.v1 import admin_pb2 as pb

FORM_BYTES_MAX: Final = Size(4_096, least=1)
FORM_SECONDS_MAX: Final = Seconds(10.0, least=0.01)
# How long an answer waits for the end of what it began; most is done by then.
ACT_SECONDS: Final = Seconds(2.0, least=0.001)
# Of the values of an action, in the log.
VALUES_TOLD_MAX: Final = 12
FORM_TYPE: Final = "application/x-www-form-urlencoded"

Given: TypeAlias = Mapping[str, Sequence[bytes]]
# Makes a page of a title, its content and the tab that is open.
Still: TypeAlias = Callable[[str, list[Child], str], Response]

logger = structlog.get_logger(__name__)


class Acting:
    """The pages of actions of one node.

    Args:
        still: makes a page.
        on_acted: called when an action has ended.
    """

    def __init__(self, sources: ConsoleSources, still: Still, on_acted: Callable[[], None]) -> None:
        self._sources = sources
        self._still = still
        self._on_acted = on_acted
        self._planner = Planner(sources.engine, sources.operating)
        self._proofs = Proofs()
        self._outcomes = Outcomes()

    # --- Asking -------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        name, given = request.path_params["name"], _given(request)
        if name == "link":
            name = "resume" if self._is_paused(given) else "pause"
        if name == "tune" and "value" not in given:
            return await self._ask_for_value(request, given)
        if name == "add" and not given:
            if not may_operate(rights_of(request)):
                raise await self._no_operator(request)
            return self._still("Add a region", action_pages.asks_for_region(), "Members")
        if name == "claim" and "consumer" not in given:
            return await self._ask_for_consumer(request, given)
        action = _action(name, given)
        await self._require_right(request, action)
        plan = await self._planner.plan(action)
        proof = self._proofs.make(_user(request), _proven(action), _now())
        return self._still(
            title_of(action), action_pages.asks(action, plan, proof), _tab(back_of(action))
        )

    def _is_paused(self, given: Given) -> bool:
        action = _action("pause", given)
        assert isinstance(action, SetLink)
        links = self._sources.status().links
        return any(one.peer == action.peer and one.paused for one in links)

    async def _ask_for_value(self, request: Request, given: Given) -> Response:
        parameter = b"".join(given.get("parameter", ())).decode("latin-1")
        if not may_operate(rights_of(request)):
            raise await self._no_operator(request)
        for one in self._sources.status().tunables:
            if one.name == parameter and one.allowed:
                # One text that is not the value says what it must be.
                is_choice = len(one.allowed) > 1 or one.allowed[0] == one.value
                content = action_pages.asks_for_value(
                    parameter, one.value, one.allowed, is_choice=is_choice
                )
                return self._still(f"Set {parameter}", content, "Node")
        raise AskedForError(
            404, "No such setting", "There is no setting of that name to tune.", "See Node."
        )

    async def _ask_for_consumer(self, request: Request, given: Given) -> Response:
        # With any consumer it is known whether the rest will do.
        claim = _action("claim", {**given, "consumer": [b"?"], "idle": [b"0"]})
        assert isinstance(claim, Claim)
        if not may_claim(rights_of(request), claim.key):
            raise no_right_to_act(request, claim.command)
        content = action_pages.asks_for_consumer(claim.key, claim.group, given["id"])
        known = self._consumers(request, claim)
        return self._still(
            "Claim pending entries", [*content, action_pages.consumers_offered(known)], "Streams"
        )

    def _consumers(self, request: Request, claim: Claim) -> Sequence[bytes]:
        """Consumers of a group, for users who may see them."""
        if not rights_of(request).may_call([b"xinfo", b"consumers", claim.key, claim.group]):
            return ()
        stream = self._sources.engine.region.replica.stream(claim.key)
        group = None if stream is None else stream.groups.get(claim.group)
        return () if group is None else tuple(sorted(group.consumers))

    # --- Acting -------------------------------------------------------------------------------

    async def act(self, request: Request) -> Response:
        action = _action(request.path_params["name"], _given(request))
        form = await _form(request)
        if not request.scope[STILL_MAY]():
            raise _gone()
        await self._require_right(request, action)
        user = _user(request)
        try:
            proven = self._proofs.proven(form.get(PROOF, ""), user, _proven(action), _now())
        except ProofError as error:
            raise _outdated(f"{error}", action) from error
        number = proven.number
        if self._outcomes.of(number, user) is None:
            if self._outcomes.is_spent(user, proven.asked_s):
                raise _outdated("This user did too much after the page was loaded.", action)
            outcome = Outcome(number, user, title_of(action), back_of(action), _now())
            try:
                self._outcomes.begin(outcome)
            except OutcomesFullError:
                raise AskedForError(
                    503,
                    "Nothing was changed",
                    "Too many actions are being done at this moment.",
                    "Try again when some have ended, or use the commands crdtstream and redis-cli.",
                ) from None
            await self._begin(outcome, action, _address(request))
        return RedirectResponse(f"{OUTCOME}{number}", status_code=303)

    async def _begin(self, outcome: Outcome, action: Action, address: str) -> None:
        """Begin an action; it goes on when the browser has left."""
        task = self._sources.begin(self._run(outcome, action, address))
        await asyncio.wait([task], timeout=ACT_SECONDS.value)

    async def _run(self, outcome: Outcome, action: Action, address: str) -> None:
        told = logger.bind(
            user=outcome.user.decode(errors="backslashreplace"),
            address=address,
            action=name_of(action),
            values=_values_told(action),
        )
        told.info("the console acts for a user")
        try:
            async for told_now in self._planner.act(action):
                if isinstance(told_now, Secret):
                    outcome.secret = told_now
                else:
                    outcome.say(told_now)
        except NotDoneError as error:
            outcome.state = State.FAILED
            outcome.say(f"{error}.")
        except NotKnownError as error:
            outcome.state = State.UNKNOWN
            outcome.say(f"{error}.")
        except asyncio.CancelledError:
            outcome.state = State.UNKNOWN
            outcome.say("The node stopped before it was done; look at what it was about.")
            told.info("the console acted", outcome=outcome.state.value, told=outcome.lines[-1])
            raise
        except Exception:  # noqa: BLE001 - the task ends here, and what a bug left is not known
            outcome.state = State.UNKNOWN
            outcome.say("It failed by a bug; the log of the node has more. Please report it.")
            told.exception("an action of the console failed")
            return
        else:
            outcome.state = State.DONE
        finally:
            self._on_acted()
        told.info("the console acted", outcome=outcome.state.value, told=" ".join(outcome.lines))

    async def outcome(self, request: Request) -> Response:
        found = self._outcomes.of(request.path_params["number"], _user(request))
        if found is None:
            raise AskedForError(
                404,
                "No such outcome",
                "This node knows no action of this user by that number.",
                "Outcomes are kept for a while, until the node restarts; its log has them all.",
            )
        joining = None if found.secret is None else self._joining(found.secret.region)
        return self._still("Outcome", action_pages.outcome(found, joining), _tab(found.back))

    def _joining(self, region: int) -> Joining:
        """The state of an added region."""
        statuses = pb.MemberStatus.Status
        known = {one.region: one.status for one in self._sources.members().members}
        match known.get(region, statuses.JOINING):
            case statuses.JOINING:
                return Joining.AWAITED
            case statuses.REMOVED:
                return Joining.REMOVED
            case _:
                return Joining.JOINED

    # --- Rights -------------------------------------------------------------------------------

    async def _require_right(self, request: Request, action: Action) -> None:
        """
        Raises:
            AskedForError: the user may not do it; that is noted in ACL LOG.
        """
        if may_act(rights_of(request), action):
            return
        if isinstance(action, Acknowledge | Claim):
            raise no_right_to_act(request, action.command)
        raise await self._no_operator(request)

    async def _no_operator(self, request: Request) -> AskedForError:
        await verdict_of(request.scope, self._sources.logins, administers)
        return AskedForError(
            403,
            "No right",
            "This user may not change links, settings and members.",
            "It needs all commands of the category @admin (+@admin); see docs/acl.md.",
        )


# --- What is asked for ----------------------------------------------------------------------------


def _given(request: Request) -> dict[str, list[bytes]]:
    """Values of a request, as bytes; those of ``PACKED`` are among them.

    Raises:
        AskedForError: they are too long.
    """
    query = request.scope["query_string"]
    if len(query) > QUERY_BYTES_MAX.value:
        raise AskedForError(
            414,
            "The address is too long",
            f"What is asked for has at most {QUERY_BYTES_MAX.value} bytes.",
            "Choose fewer entries, or use redis-cli.",
        )
    found: dict[str, list[bytes]] = {}
    for name, value in _pairs(query.decode("latin-1")):
        pairs = _pairs(value) if name == PACKED else [(name, value)]
        for inner, text in pairs:
            found.setdefault(inner, []).append(text.encode("latin-1"))
    return found


def _pairs(text: str) -> list[tuple[str, str]]:
    # Each byte is a character of Latin-1, and the other way round.
    return parse_qsl(text, keep_blank_values=True, encoding="latin-1")


def _action(name: str, given: Given) -> Action:
    unknown = [one for one in given if one not in VALUES.get(name, ())]
    try:
        if unknown:
            raise ActionError("It takes other values.")
        return action_of(name, given)
    except ActionError as error:
        raise AskedForError(
            400, "Nothing was changed", f"{error}", "Go back, and follow the links of the console."
        ) from error


async def _form(request: Request) -> dict[str, str]:
    """The content of a form, besides its address.

    Raises:
        AskedForError: it is no form, too large, or does not come.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM_TYPE:
        raise _no_form()
    body = b""
    try:
        async with asyncio.timeout(FORM_SECONDS_MAX.value):
            async for piece in request.stream():
                body += piece
                if len(body) > FORM_BYTES_MAX.value:
                    raise _no_form()
    except (TimeoutError, ClientDisconnect):
        raise _no_form() from None
    return dict(_pairs(body.decode("latin-1")))


def _outdated(reason: str, action: Action) -> AskedForError:
    return AskedForError(
        409,
        "Nothing was changed",
        reason,
        "Ask again, and decide by what the page says then.",
        path_of(action),
    )


def _gone() -> AskedForError:
    return AskedForError(
        403,
        "Nothing was changed",
        "The user was removed, or its password changed, while the form was sent.",
        "Log in again.",
    )


def _no_form() -> AskedForError:
    return AskedForError(
        400,
        "Nothing was changed",
        "The request is no form of a page of this node.",
        "Follow the links of the console; programs use the commands crdtstream and redis-cli.",
    )


def _proven(action: Action) -> list[bytes]:
    """An action as its proof names it."""
    values = [part for name, value in values_of(action) for part in (name.encode(), value)]
    return [name_of(action).encode(), *values]


def _user(request: Request) -> bytes:
    return rights_of(request).user or b""


def _address(request: Request) -> str:
    address, _ = request.scope.get("client") or ("", 0)
    return str(address)


def _values_told(action: Action) -> str:
    """Values for the log, of many IDs the first ones."""
    values = [(name, value.decode(errors="backslashreplace")) for name, value in values_of(action)]
    shown = [f"{name}={value}" for name, value in values]
    more = len(shown) - VALUES_TOLD_MAX
    return " ".join(shown[:VALUES_TOLD_MAX]) + (f" and {more} more" if more > 0 else "")


def _tab(back: str) -> str:
    """The tab of an action that leads back to this page."""
    tabs = {"/": "Overview", "/console/node": "Node", "/console/members": "Members"}
    return tabs.get(back, "Streams")


def _now() -> float:
    return asyncio.get_running_loop().time()
