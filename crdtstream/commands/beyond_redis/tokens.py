"""CRDT.TOKEN and CRDT.WAITFOR: reading one's own writes in another region.

    region 1:  XADD … ; XACK … ; CRDT.TOKEN ──> 5f0c…/1:42,2:17
                                                          │  the client moves
    region 2:  CRDT.WAITFOR 5f0c…/1:42,2:17 1000 ──> 1    ▼  now everything above can be read here

A token names a database and the version vector of the region that issued it: all that the client
can have written or seen there.  A cursor of CRDT.XREAD is the same, and can be waited for as well.
"""

from crdtstream.commands.arguments import timeout_ms
from crdtstream.commands.beyond_redis.version_vectors import (
    encode_version_vector,
    parse_version_vector,
    refuse_lost,
)
from crdtstream.commands.reply import Blocked, Reply
from crdtstream.core.clock import covers
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica


def crdt_token(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """CRDT.TOKEN: a token for everything that this region has applied or issued until now.

    Acknowledgements count: the runs that they moved are issued now, not when the tick ends.
    """
    replica.issue_frontiers()
    return encode_version_vector(replica, replica.vv)


def crdt_waitfor(replica: Replica, now: Millis, argv: list[bytes]) -> Reply | Blocked:
    """CRDT.WAITFOR token timeout-ms: 1 once this region has applied all that the token stands for.

    0 if the timeout comes first (a timeout of 0: never).

    Raises:
        CommandError: the token or the timeout does not parse; or LOST: the token stands for effects
            that exist nowhere, as their region was removed or goes on without them in another
            folder.  The answer would never be 1.
    """
    token = parse_version_vector(argv[1], replica.database_uid, what="token")
    timeout = timeout_ms(argv[2], now)

    def retry(replica: Replica, now: Millis) -> Reply | Blocked:
        # Looked at each time: while it waits, it may become known that they are lost.  And first:
        # their numbers may be those of other effects by now, and a removed region still has them.
        refuse_lost(replica, token)
        is_here = covers(replica.vv, token.vv) and not replica.are_unheard(token.vv, token.numbers)
        return 1 if is_here else blocked

    blocked = Blocked((), timeout, retry, on_timeout=0)
    return retry(replica, now)
