"""A folder that the version before wrote: groups, modes, expiry, idempotent producers.

``tests/format_1`` holds the log of region 1 of two, and what its node said before it was stopped.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crdtstream.core.ids import IdMode, Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.database.session import Session
from crdtstream.store.log import Fsync
from crdtstream.store.replay import recover
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from tests.harness.regions import plain
from tests.store.earlier_digest import use_earlier_digest

FOLDER = Path(__file__).parent / "format_1"


async def test_a_folder_of_format_1_says_what_its_node_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_earlier_digest(monkeypatch)
    facts: dict[str, Any] = json.loads((FOLDER / "facts.json").read_text())
    shutil.copyfile(FOLDER / "log.sqlite", tmp_path / "log.sqlite")
    region = RegionId(1)
    log = await SqliteLog.open(tmp_path, region=region, database_id="crdb", fsync=Fsync.ALWAYS)
    try:
        assert not log.is_proven
        recovered = await recover(
            log,
            await SqliteCheckpoints.open(log),
            lambda: Replica(region, id_mode=IdMode.LIBERAL, peers=[RegionId(2)]),
        )
        assert recovered.checkpoint is None
        replica = recovered.replica
        database = Database(replica)
        session = database.open_session()

        assert {str(origin): n for origin, n in replica.vv.items()} == facts["vv"]
        assert replica.digest().decode() == facts["digest"]
        assert ask(database, session, "XRANGE work - +") == facts["entries"]
        pending = ask(database, session, "XPENDING work g - + 100")
        assert [row[0] for row in pending] == facts["pending"]
        assert ask(database, session, "XRANGE gone - +") == ["2-2"]
        # And it goes on.
        assert ask(database, session, "XACK work g " + " ".join(facts["pending"])) == 2
        assert ask(database, session, "XADD work 80-1 f v") == "80-1"
        assert ask(database, session, "XREADGROUP GROUP g c STREAMS work >")["work"][-1] == "80-1"
    finally:
        await log.abandon()


def ask(database: Database, session: Session, line: str) -> Any:
    argv = [word.encode() for word in line.split()]
    return plain(database.call(session, Millis(2_000_000_000_000 - 10**12), argv))
