"""Plans: what an action would do by now, in sentences, and doing it.

A plan changes nothing.  Between a plan and its action others may change the same; what is done is
decided when it is done, by the code that serves commands and operators as well.
"""

import hashlib
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, assert_never

from crdtstream.admin.operating import NotDoneError, NotKnownError, Operating
from crdtstream.commands.groups.claiming import xclaim
from crdtstream.commands.groups.pending import idle_ms, xack
from crdtstream.commands.lookup import group_or_error
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.console import words
from crdtstream.console.actions import Acknowledge, Action, Add, Claim, Remove, SetLink, Tune
from crdtstream.console.outcomes import Secret
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pel_chunk import Nack
from crdtstream.core.ids import Millis, StreamId
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.member_changes import TOKEN_BYTES, TOKEN_HOURS
from crdtstream.core.replica import Replica
from crdtstream.engine.engine import Engine
from crdtstream.engine.programs import OutcomeUnknownError
from crdtstream.v1 import admin_pb2 as pb

# How long the others may take to get all of a region that is removed, as for the command.
REMOVAL_SECONDS: Final = 60.0
HERE_ONLY: Final = "The other regions keep their values; rladmin tune db --all changes all of them."


@dataclass(frozen=True, slots=True)
class Plan:
    """The consequences of an action.

    Attributes:
        does: sentences.
        undoing: how it is undone, or that it cannot be.
        obstacle: why it cannot be done by now; empty: it can.
    """

    does: Sequence[str] = ()
    undoing: str = ""
    obstacle: str = ""


class Planner:
    """Plans and does what a page asks for, in one region."""

    def __init__(self, engine: Engine, operating: Operating) -> None:
        self._engine = engine
        self._operating = operating
        self._replica = engine.region.replica
        self._here = engine.region.replica.region

    async def plan(self, action: Action) -> Plan:
        """The consequences as of now."""
        try:
            match action:
                case SetLink():
                    return self._of_link(action)
                case Acknowledge():
                    return self._of_acknowledge(action)
                case Claim():
                    return self._of_claim(action)
                case Tune():
                    return self._of_tune(action)
                case Add():
                    return await self._of_addition(action)
                case Remove():
                    return await self._of_removal(action)
                case _:
                    assert_never(action)
        except (CommandError, NotDoneError, NotKnownError) as error:
            return Plan(obstacle=f"{error}")

    async def act(self, action: Action) -> AsyncIterator[str | Secret]:
        """Do it; yields what happens, in sentences, and what only its user may see.

        Raises:
            NotDoneError: it was not done.
            NotKnownError: it may still be done.
        """
        match action:
            case SetLink():
                self._operating.set_link(action.peer, paused=action.paused)
                yield f"The link from region {action.peer} is {_paused(action)}."
            case Acknowledge():
                count = await self._changed(action)
                yield _of(count, len(action.ids), "acknowledged in this region")
            case Claim():
                claimed = await self._changed(action)
                yield _of(claimed, len(action.ids), f"of consumer {words.name(action.consumer)}")
                yield f"XREADGROUP with 0 gives them to it; {_NOT_CLAIMED}"
            case Tune():
                before, value = await self._operating.tune(action.parameter, action.value)
                yield f"{action.parameter} was {before}, and is {value}."
            case Add():
                secret = secrets.token_bytes(TOKEN_BYTES)
                added = await self._operating.add(_new(action, secret, self._engine.now()))
                yield Secret(
                    added,
                    f"The token with which its node joins, good for {TOKEN_HOURS} hours. Save it on"
                    f" the machine of region {added} as region-{added}.token, for its user alone:",
                    secret.hex(),
                    f"Then start the node of region {added} there (later by --config alone):",
                    joining_command(
                        self._operating.settings.grpc_address,
                        added,
                        has_certificate=self._operating.calls.certificates is not None,
                    ),
                )
                yield f"Region {added} may join."
            case Remove():
                steps = self._operating.removal(
                    action.region, seconds=REMOVAL_SECONDS, dry_run=False
                )
                async with aclosing(steps):
                    async for step in steps:
                        yield _sentence(step)
            case _:
                assert_never(action)

    async def _changed(self, action: Acknowledge | Claim) -> int:
        """Number of entries that the command took."""

        def change(replica: Replica, now: Millis) -> Reply:
            run = xack if isinstance(action, Acknowledge) else xclaim
            return run(replica, now, action.command)

        try:
            # As the commands they are allowed while too much lags.
            reply = await self._engine.change(change, writes=0)
        except (CommandError, UnreadableError) as error:
            raise NotDoneError(f"{error}") from error
        except OutcomeUnknownError as error:
            raise NotKnownError(
                "the disk refused; look at the entries again when it is well"
            ) from error
        if isinstance(reply, list):
            return len(reply)
        assert isinstance(reply, int), "XACK counts"
        return reply

    # --- Plans --------------------------------------------------------------------------------

    def _of_link(self, action: SetLink) -> Plan:
        peer, here = action.peer, self._here
        if peer not in self._engine.region.links.pulls:
            return Plan(obstacle=f"Region {peer} is no peer of region {here}.")
        if not action.paused:
            return Plan(
                [f"Region {here} pulls from region {peer} again, and catches up."],
                "It can be paused again.",
            )
        return Plan(
            [
                (
                    f"Region {here} pulls nothing from region {peer} until the link is resumed, or"
                    f" the node restarts. What region {peer} writes is missing here meanwhile."
                ),
                (
                    f"Region {peer} goes on pulling from region {here}; its own console pauses that"
                    " direction."
                ),
                (
                    f"Region {peer} keeps what is missing here in its log, up to its"
                    " replication_backlog_size and replication_backlog_ttl_s."
                ),
            ],
            "Resuming the link undoes it: what was missed comes then.",
        )

    def _of_acknowledge(self, action: Acknowledge) -> Plan:
        _, group = group_or_error(self._replica, action.key, action.group)
        nacks = _pending(group, action.ids)
        if not nacks:
            return Plan(obstacle=_NOT_PENDING)
        them, are = ("it", "is") if len(nacks) == 1 else ("them", "are")
        return Plan(
            [
                (
                    f"XACK in region {self._here}: {_entries(len(nacks))} {are} pending no longer,"
                    f" and no consumer of this region gets {them} again."
                ),
                *_not_pending(len(action.ids) - len({one.id for one in nacks})),
                (
                    "Another region hears of it once all entries before them are acknowledged, too."
                    " Until then it may deliver them, and what is pending there stays pending."
                ),
                *_home(group, self._here, "An acknowledgement counts in every region."),
            ],
            "This cannot be undone.",
        )

    def _of_claim(self, action: Claim) -> Plan:
        _, group = group_or_error(self._replica, action.key, action.group)
        home = group.home
        if home is not None and home != self._here:
            return Plan(
                obstacle=f"Region {home} delivers this group alone, so entries are claimed there"
                f" only. Open the console of region {home}."
            )
        nacks = _pending(group, action.ids)
        if not nacks:
            return Plan(obstacle=_NOT_PENDING)
        now = self._engine.now()
        idle = [one for one in nacks if one.consumer is None or idle_ms(one, now) >= action.idle_ms]
        name = words.name(action.consumer)
        new = "" if action.consumer in group.consumers else " The group makes this consumer."
        return Plan(
            [
                (
                    f"XCLAIM in region {self._here} takes entries that are idle for at least"
                    f" {words.duration(action.idle_ms)}, or have no consumer: {len(idle)} of"
                    f" {len(nacks)} as of now. They become those of {name}.{new}"
                ),
                (
                    "Their delivery counts stay, as nothing is delivered: the consumer gets them by"
                    " XREADGROUP with the ID 0."
                ),
                "The consumer that has an entry now is not told of it.",
            ],
            _unclaiming(nacks),
        )

    def _of_tune(self, action: Tune) -> Plan:
        before = self._operating.check_tunable(action.parameter, action.value)
        if before == action.value:
            return Plan(obstacle=f"{action.parameter} is {before} already.")
        return Plan(
            [
                (
                    f"{action.parameter} of region {self._here} is {before}, and becomes"
                    f" {action.value}, at once and over restarts."
                ),
                HERE_ONLY,
            ],
            f"Setting it to {before} undoes it.",
        )

    async def _of_addition(self, action: Add) -> Plan:
        added = await self._operating.add(
            _new(action, bytes(TOKEN_BYTES), self._engine.now()), dry_run=True
        )
        return Plan(
            [
                (
                    f"Region {action.name} becomes a member that may join, with a number that is"
                    f" free then (now: {added}). More than half of the regions must be up."
                ),
                (
                    f"The other regions call it at {action.grpc}, and keep for it what it lacks."
                    " It takes reads and writes when its node has joined, and has all entries."
                ),
                "The page behind this one shows the token that its node needs, to you alone.",
            ],
            "`crdtstream crdb remove-instance` undoes it; its number is not given again.",
        )

    async def _of_removal(self, action: Remove) -> Plan:
        steps = self._operating.removal(action.region, seconds=REMOVAL_SECONDS, dry_run=True)
        async with aclosing(steps):
            found = [_sentence(step) async for step in steps]
        return Plan(
            [
                *found,
                (
                    f"If the others do not have all of it within {REMOVAL_SECONDS:g} seconds,"
                    f" region {action.region} takes writes again, and stays a member."
                ),
            ],
            "This cannot be undone: its number is not given again. A new region can be added.",
        )


def joining_command(member: str, region: int, *, has_certificate: bool) -> str:
    """Command that starts the node of an added region.

    Args:
        member: address of a member's gRPC service.
        has_certificate: the members speak TLS; the files are named as by `crdtstream certs issue`.
    """
    files = " --tls-cert-file cert.pem --tls-key-file key.pem --tls-ca-cert-file ca.pem"
    return (
        f"crdtstream node --join {member} --token-file region-{region}.token"
        f" --config region-{region}.toml{files if has_certificate else ''}"
    )


_NOT_PENDING: Final = "None of these entries is pending in this region any more."
_NOT_CLAIMED: Final = "entries that were acknowledged, deleted or not idle are not among them."


def _new(action: Add, token: bytes, now: Millis) -> pb.AddRegion:
    return pb.AddRegion(
        name=action.name,
        grpc_address=action.grpc,
        resp_address=action.resp,
        http_address=action.http,
        token_sha256=hashlib.sha256(token).digest(),
        token_expires_ms=now + TOKEN_HOURS * 3_600_000,
    )


def _not_pending(count: int) -> list[str]:
    if not count:
        return []
    verbs = ("is", "stays as it is") if count == 1 else ("are", "stay as they are")
    return [f"{_entries(count)} that you chose {verbs[0]} not pending, and {verbs[1]}."]


def _unclaiming(nacks: Sequence[Nack]) -> str:
    """The way back, which entries without a consumer do not have."""
    back = "Claiming them for the former consumer undoes it"
    without = sum(one.consumer is None for one in nacks)
    if not without:
        return f"{back}."
    if without == len(nacks):
        return "This cannot be undone: they have no consumer for whom to claim them back."
    return f"{back}, except for {_entries(without)} without a consumer."


def _pending(group: Group, ids: Sequence[StreamId]) -> list[Nack]:
    """Those of the entries that are pending here, of all lanes."""
    found = [progress.pel.get(one) for one in ids for progress in group.lanes.values()]
    return [nack for nack in found if nack is not None]


def _home(group: Group, here: int, text: str) -> list[str]:
    if group.home is None or group.home == here:
        return []
    return [f"Region {group.home} delivers this group. {text}"]


def _paused(action: SetLink) -> str:
    return "paused" if action.paused else "resumed"


def _of(count: int, named: int, what: str) -> str:
    verb = "is" if count == 1 else "are"
    chosen = "" if count == named else f", of {words.count(named)} that you chose"
    return f"{_entries(count)} {verb} {what}{chosen}."


def _entries(count: int) -> str:
    return words.number_of(count, "entry", "entries")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
