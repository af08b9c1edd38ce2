"""The commands on keys and streams, each with its function.

What else there is to know of one (arity, flags, where its keys are) stands on its page in
``documentation``.
"""

from collections.abc import Mapping
from typing import Final

from crdtstream.commands import absent
from crdtstream.commands.beyond_redis import group_modes
from crdtstream.commands.beyond_redis import xinfo as crdt_xinfo
from crdtstream.commands.beyond_redis.cursor import crdt_xread
from crdtstream.commands.beyond_redis.digest import crdt_digest
from crdtstream.commands.beyond_redis.provenance import crdt_why
from crdtstream.commands.beyond_redis.tokens import crdt_token, crdt_waitfor
from crdtstream.commands.command import Command, RunCommand, documented
from crdtstream.commands.groups import xgroup
from crdtstream.commands.groups.claiming import xautoclaim, xclaim
from crdtstream.commands.groups.pending import xack, xnack, xpending
from crdtstream.commands.groups.xreadgroup import xreadgroup
from crdtstream.commands.keys import expiry, memory, objects
from crdtstream.commands.keys.copying import copy, rename, renamenx
from crdtstream.commands.keys.dumping import dump, restore
from crdtstream.commands.keys.keys import (
    count_existing,
    dbsize,
    delete,
    flushall,
    keys,
    move,
    randomkey,
    scan,
    swapdb,
    touch,
    type_of,
)
from crdtstream.commands.scripts import scripting, waiting
from crdtstream.commands.streams import xinfo
from crdtstream.commands.streams.delete_policies import xackdel, xdelex
from crdtstream.commands.streams.idempotent_xadd import xcfgset
from crdtstream.commands.streams.range import xdel, xlen, xrange, xrevrange, xsetid, xtrim
from crdtstream.commands.streams.xadd import xadd
from crdtstream.commands.streams.xread import xread
from crdtstream.commands.strings import counting, getting, setting

_FUNCTIONS: Final[Mapping[bytes, RunCommand]] = {
    # Streams
    b"xadd": xadd,
    b"xlen": xlen,
    b"xrange": xrange,
    b"xrevrange": xrevrange,
    b"xread": xread,
    b"xinfo|stream": xinfo.show_stream,
    b"xinfo|groups": xinfo.show_groups,
    b"xinfo|consumers": xinfo.show_consumers,
    b"xinfo|help": xinfo.show_help,
    b"xdel": xdel,
    b"xtrim": xtrim,
    b"xdelex": xdelex,
    b"xcfgset": xcfgset,
    b"xsetid": xsetid,
    # Groups
    b"xreadgroup": xreadgroup,
    b"xgroup|create": xgroup.create,
    b"xgroup|createconsumer": xgroup.create_consumer,
    b"xgroup|delconsumer": xgroup.delete_consumer,
    b"xgroup|destroy": xgroup.destroy,
    b"xgroup|setid": xgroup.set_id,
    b"xgroup|help": xgroup.show_help,
    b"xack": xack,
    b"xpending": xpending,
    b"xclaim": xclaim,
    b"xautoclaim": xautoclaim,
    b"xackdel": xackdel,
    b"xnack": xnack,
    # Strings
    b"set": setting.set_string,
    b"setex": setting.setex,
    b"psetex": setting.psetex,
    b"incr": counting.incr,
    b"incrby": counting.incrby,
    b"decr": counting.decr,
    b"decrby": counting.decrby,
    b"setnx": setting.setnx,
    b"getset": setting.getset,
    b"mset": setting.mset,
    b"msetnx": setting.msetnx,
    b"get": getting.get,
    b"mget": getting.mget,
    b"strlen": getting.strlen,
    b"getdel": getting.getdel,
    b"getex": getting.getex,
    # Scripts
    b"eval": scripting.evaluate,
    b"evalsha": scripting.evaluate_by_digest,
    b"script|load": scripting.load,
    b"script|exists": scripting.exist,
    b"script|flush": scripting.flush,
    b"script|kill": scripting.kill,
    b"script|help": scripting.show_help,
    b"blpop": waiting.blpop,
    # Absent
    b"asking": absent.no_cluster,
    b"cluster|countkeysinslot": absent.no_cluster,
    b"cluster|getkeysinslot": absent.no_cluster,
    b"cluster|help": absent.no_cluster,
    b"cluster|info": absent.no_cluster,
    b"cluster|keyslot": absent.no_cluster,
    b"cluster|links": absent.no_cluster,
    b"cluster|myid": absent.no_cluster,
    b"cluster|nodes": absent.no_cluster,
    b"cluster|shards": absent.no_cluster,
    b"cluster|slots": absent.no_cluster,
    b"readonly": absent.no_cluster,
    b"readwrite": absent.no_cluster,
    b"function|help": absent.function_help,
    b"function|list": absent.function_list,
    b"function|stats": absent.function_stats,
    # Keys
    b"del": delete,
    b"unlink": delete,
    b"exists": count_existing,
    b"touch": touch,
    b"type": type_of,
    b"keys": keys,
    b"scan": scan,
    b"rename": rename,
    b"renamenx": renamenx,
    b"copy": copy,
    b"dump": dump,
    b"restore": restore,
    b"move": move,
    b"swapdb": swapdb,
    b"randomkey": randomkey,
    b"expire": expiry.expire,
    b"pexpire": expiry.pexpire,
    b"expireat": expiry.expireat,
    b"pexpireat": expiry.pexpireat,
    b"ttl": expiry.ttl,
    b"pttl": expiry.pttl,
    b"expiretime": expiry.expiretime,
    b"pexpiretime": expiry.pexpiretime,
    b"persist": expiry.persist,
    b"object|encoding": objects.encoding,
    b"object|freq": objects.freq,
    b"object|idletime": objects.idletime,
    b"object|refcount": objects.refcount,
    b"object|help": objects.show_help,
    # MEMORY's other subcommands are about the process, and so the server's.
    b"memory|usage": memory.usage,
    b"dbsize": dbsize,
    b"flushall": flushall,
    b"flushdb": flushall,
    # Beyond Redis
    b"crdt.xread": crdt_xread,
    b"crdt.why": crdt_why,
    b"crdt.xinfo|groups": crdt_xinfo.show_groups,
    b"crdt.xinfo|stream": crdt_xinfo.show_stream,
    b"crdt.xinfo|help": crdt_xinfo.show_help,
    b"crdt.xgroup|setmode": group_modes.set_mode,
    b"crdt.xgroup|getmode": group_modes.get_mode,
    b"crdt.xgroup|help": group_modes.show_help,
    b"crdt.token": crdt_token,
    b"crdt.waitfor": crdt_waitfor,
    b"crdt.digest": crdt_digest,
}

COMMANDS: Final[Mapping[bytes, Command]] = {
    command.name: command for command in documented(Command, _FUNCTIONS)
}
