"""What opens the region for writes: ``readiness.py`` decides, the folder and the engine follow.

Whoever hears something from a peer tells the readiness and calls ``look``.  The gate's task does
what takes time: it stores the database's identity before anybody is told of it, and notes in the
folder that the node goes on with it before the first effect is issued.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from crdtstream.core.ids import Region
from crdtstream.core.uid import NO_UID, UID_BYTES, DatabaseUid, parse_uid, shown_uid
from crdtstream.engine import Engine
from crdtstream.region.links.peer_runs import PeerRuns
from crdtstream.region.links.readiness import Answer, DatabaseIdentity, Readiness
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Log

logger = structlog.get_logger(__name__)

UID_KEY: Final = "database_uid"
DECLARED_KEY: Final = "database_declared"
RETRY_SECONDS: Final = 1.0


class Gate:
    """Keeps engine and folder in step with what the readiness says.

    Attributes:
        readiness: tell it what peers say, then call ``look``.
        peer_runs: whose effects are held.
        database: the identity as the folder has it; what peers and programs are told.
        on_change: called when peers should hear at once of another ``database``, or that all have
            answered this region.
        on_recovering: called when all peers must answer (again), so all links must begin again.
    """

    def __init__(self, engine: Engine, readiness: Readiness) -> None:
        self.readiness = readiness
        self.peer_runs = PeerRuns()
        self.database = DatabaseIdentity()
        self.on_change: list[Callable[[], None]] = []
        self.on_recovering: list[Callable[[], None]] = []
        self._engine = engine
        self._must_revoke = False
        self._told_asking = readiness.is_asking
        self._wake = asyncio.Event()
        self._wake.set()
        engine.on_logged.append(self._note_logged)
        self.look()

    @property
    def is_asking(self) -> bool:
        return self.readiness.is_asking

    def note_answer(self, peer: Region, answer: Answer) -> None:
        """A peer's answer; see ``Readiness.note_answer``."""
        if self.readiness.note_answer(peer, answer):
            logger.warning("a peer has lost effects of this region: all are asked again", peer=peer)
            self._ask_again()

    def _ask_again(self) -> None:
        for restart in self.on_recovering:
            restart()

    def look(self) -> None:
        """Something was heard from a peer: accept or refuse writes by it."""
        vv = self._engine.replica.vv
        if self.readiness.recover_if_behind(self._engine.replica.issued):
            logger.error("peers have effects of this region that it lost: it recovers")
            self._must_revoke = True
            self._ask_again()
        self._engine.set_stale(self.readiness.obstacle(vv))
        if self.readiness.is_asking != self._told_asking:
            self._told_asking = self.readiness.is_asking
            self._tell()
        if self._has_work():
            self._wake.set()

    def _note_logged(self) -> None:
        if self.readiness.is_recovering:
            self.look()

    def _has_work(self) -> bool:
        readiness = self.readiness
        return (
            self._must_revoke
            or readiness.database != self.database
            or (readiness.is_recovering and readiness.has_recovered(self._engine.logged_vv))
        )

    def _tell(self) -> None:
        for tell in self.on_change:
            tell()

    async def run(self) -> None:
        """Store what is agreed on, for as long as the node lives."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.follow()
            except StoreError as error:
                logger.error("the folder cannot be written; it is tried again", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    async def follow(self) -> None:
        """Store what is agreed on by now, and open if everything that was lost is here.

        Raises:
            StoreError: the folder cannot be written.
        """
        readiness, engine = self.readiness, self._engine
        if self._must_revoke:
            # Else the next start would take the folder for the one that it seemed to be.
            await engine.log.revoke()
            self._must_revoke = False
        if readiness.database != self.database:
            database = readiness.database
            await store_identity(engine.log, database)
            self.use_stored(database)
            logger.info("database", uid=shown_uid(database.uid), declared=database.declared)
        if readiness.is_recovering and readiness.has_recovered(engine.logged_vv):
            await engine.log.confirm()
            readiness.finish()
            logger.info("ready", issued=engine.replica.issued)
        self.look()
        self._tell()

    def use_stored(self, database: DatabaseIdentity) -> None:
        """The folder has this identity: peers and programs are told of it from here on."""
        self.database = database
        self._engine.replica.database_uid = database.uid


def random_uid() -> DatabaseUid:
    return DatabaseUid(secrets.token_bytes(UID_BYTES))


async def stored_identity(log: Log) -> DatabaseIdentity:
    """The identity that a folder has; without one ``NO_UID``.

    Raises:
        StoreError: it is damaged.
    """
    text = await log.get_meta(UID_KEY)
    if text is None:
        return DatabaseIdentity()
    uid = parse_uid(text)
    if uid is None:
        raise StoreError(
            f"meta {UID_KEY}: {text!r} is no identity of a database; start this region again from "
            "a backup of its folder"
        )
    return DatabaseIdentity(uid, await log.get_meta(DECLARED_KEY) == "yes")


async def store_identity(log: Log, database: DatabaseIdentity) -> None:
    """Write the identity into the folder, durably."""
    assert database.uid != NO_UID
    await log.set_meta(DECLARED_KEY, "yes" if database.declared else "no")
    await log.set_meta(UID_KEY, shown_uid(database.uid))
    await log.sync()


async def make_gate(
    engine: Engine,
    peers: Iterable[Region],
    *,
    is_proven: bool,
    begins_database: bool = False,
    make_uid: Callable[[], DatabaseUid] = random_uid,
) -> Gate:
    """The gate of an engine that has recovered its log.

    Args:
        is_proven: as for Readiness.
        begins_database: the region was declared to begin a new database.

    Raises:
        StoreError: a database was declared new and the folder holds one, or cannot be written.
    """
    stored = await stored_identity(engine.log)
    has_effects = bool(engine.replica.vv)
    if begins_database:
        if stored.uid or has_effects:
            raise StoreError(
                f"the folder holds database {shown_uid(stored.uid) or 'of an earlier version'}, so "
                "no new one can begin in it: start without --new-database, or with an empty folder"
            )
        stored = DatabaseIdentity(make_uid(), declared=True)
        await store_identity(engine.log, stored)
        await engine.log.confirm()
        is_proven = True
    readiness = Readiness(
        engine.replica.region,
        peers,
        database=stored,
        is_proven=is_proven,
        has_effects=has_effects,
        make_uid=make_uid,
    )
    gate = Gate(engine, readiness)
    if stored.uid:
        gate.use_stored(stored)
    return gate
