"""WAIT, WAITAOF and TIME."""

from crdtstream.commands.arguments import integer, parse_i64, timeout_ms
from crdtstream.commands.command import documented
from crdtstream.commands.reply import Blocked, CommandError, Reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.database.session import Session, SessionCommand
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.outstanding import Outstanding


class Wait:
    """Commands by which a client asks about time and about other regions."""

    def __init__(self, database: Database, outstanding: Outstanding, knowledge: Knowledge) -> None:
        self._database = database
        self._outstanding = outstanding
        self._knowledge = knowledge

    def commands(self) -> list[SessionCommand]:
        return documented(
            SessionCommand, {b"wait": self._wait, b"waitaof": self._waitaof, b"time": self._time}
        )

    def _time(self, _session: Session, now: Millis, _argv: list[bytes]) -> Reply:
        """TIME: seconds, and microseconds in them; the clock is read in milliseconds."""
        return [b"%d" % (now // 1000), b"%d" % (now % 1000 * 1000)]

    def _wait(self, session: Session, now: Millis, argv: list[bytes]) -> Reply | Blocked:
        """WAIT numregions timeout-ms: number of peers that durably have this client's last write.

        It answers once that many have, or with fewer when it times out (0: never).  Unlike in Redis
        a reply already means durable *here*; WAIT is about losing a whole region.  If an XACK of
        this client has something to send to the other regions, that is waited for as well.

        Source: redis.io/commands/wait.
        """
        wanted = integer(argv[1])
        timeout = timeout_ms(argv[2], now)
        self._database.measure_writes(session)
        wrote_n = session.wrote_n

        def retry(_replica: Replica, _now: Millis) -> Reply | Blocked:
            reached = self._peers_with(wrote_n)
            return reached if reached >= wanted else Blocked((), timeout, retry, on_timeout=reached)

        return retry(self._database.replica, now)

    def _waitaof(self, session: Session, now: Millis, argv: list[bytes]) -> Reply | Blocked:
        """WAITAOF numlocal numregions timeout-ms: as WAIT, and whether a power cut here would
        spare the write.  That matters unless ``appendfsync`` is ``always``, where every reply
        says so.

        Returns:
            [1 if it is durable here else 0, number of peers that durably have it].

        Source: redis.io/commands/waitaof.
        """
        locally = integer(argv[1])
        if not 0 <= locally <= 1:
            raise CommandError("ERR value is out of range, value must between 0 and 1")
        wanted = parse_i64(argv[2])
        if wanted is None or wanted < 0:
            raise CommandError("ERR value is out of range, must be positive")
        timeout = timeout_ms(argv[3], now)
        self._database.measure_writes(session)
        wrote_n, wrote_record = session.wrote_n, session.wrote_record

        def retry(_replica: Replica, _now: Millis) -> Reply | Blocked:
            here = int(self._is_durable_here(wrote_n, wrote_record))
            elsewhere = self._peers_with(wrote_n)
            if here >= locally and elsewhere >= wanted:
                return [here, elsewhere]
            return Blocked((), timeout, retry, on_timeout=[here, elsewhere])

        return retry(self._database.replica, now)

    def _is_durable_here(self, n: int, record: int) -> bool:
        outstanding = self._outstanding
        durable_n = outstanding.durable_vv.get(self._database.replica.region, 0)
        if outstanding.is_gone:
            return False
        return durable_n >= n and outstanding.durable_records >= record

    def _peers_with(self, n: int) -> int:
        return self._knowledge.count_with(self._database.replica.region, n)
