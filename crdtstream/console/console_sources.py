"""Parts of a node that the console reads, and what it can have done."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from crdtstream.access.logins import Logins
from crdtstream.admin.operating import Operating
from crdtstream.console.picture import NodeFigures
from crdtstream.engine.engine import Engine
from crdtstream.metrics.walk import Found
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.v1 import admin_pb2 as pb

# Longest wait of a page for a walk over the streams; with few streams it ends at once.
WALK_SECONDS_MAX: Final = 0.1


class SlowCommand(Protocol):
    """A command that took long; its arguments are shortened already, and without secrets."""

    @property
    def unix_s(self) -> int: ...
    @property
    def usec(self) -> int: ...
    @property
    def arguments(self) -> Sequence[bytes]: ...
    @property
    def address(self) -> bytes: ...
    @property
    def client_name(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ConsoleSources:
    """The parts of a node that its console works with.

    Attributes:
        version: of this program.
        logins: judges who looks: on a port of this machine as well, as the console shows entries.
        status, members: as the Admin service reports them; called once a second at most.
        node: figures of this node alone; called with ``status``.
        others: asks the other regions; by region a status, or the reason why there is none.
        group_progress: asks them about a group of a stream, in the same way.
        walk: findings of a walk over all streams; None: none has ended yet.
        slow_commands: the newest first.
        operating: what an operator may have this node do.
        begin: runs an action as a task of the node, which cancels it when it stops.
    """

    settings: NodeSettings
    engine: Engine
    version: str
    logins: Logins
    status: Callable[[], pb.StatusReply]
    members: Callable[[], pb.MembersReply]
    node: Callable[[], NodeFigures]
    others: Callable[[], Awaitable[Mapping[int, pb.StatusReply | str]]]
    group_progress: Callable[[bytes, bytes], Awaitable[Mapping[int, pb.GroupProgress | str]]]
    walk: Callable[[], Awaitable[Found | None]]
    slow_commands: Callable[[], Sequence[SlowCommand]]
    operating: Operating
    begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
