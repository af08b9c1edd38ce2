"""Names of log events, and lines of JSON that have them.

The code says what happened in a sentence, for people.  A program that reads the log needs a name
that stays when the sentence is improved, so each sentence has its name here.  ``tools/logs.py``
finds all sentences in the code: one without a name, or a name without a sentence, fails a test.

Always so: a name is never used for something else later.
"""

import json
import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

# Name of a sentence that has none; tests find those before a release does.
UNNAMED: Final = "unnamed"

# By name; ``{}`` stands for what differs from line to line.
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    # A node begins and ends.
    "log-read": ("log read",),
    "serving": ("serving",),
    "stopping": ("stopping",),
    "stopped": ("stopped",),
    "notify-socket-wrong": ("NOTIFY_SOCKET is no path: the service manager is told nothing",),
    "watchdog-wrong": ("WATCHDOG_USEC is no number: the service manager gets no signs of life",),
    "service-manager-silent": ("the service manager cannot be told",),
    "rehearsal-clock": (
        "rehearsal: this node's clock is wrong on purpose (drill.clock_offset_ms)",
    ),
    "rehearsal-failpoint": (
        "rehearsal: this node dies, or its disk refuses, on purpose (drill.failpoint)",
    ),
    "clients-max-lowered": (
        (
            "clients_max is lowered to what this process may open files for; raise the hard limit"
            " of open files (ulimit -Hn, LimitNOFILE in systemd), or set limits.clients_max"
        ),
    ),
    "resp-port-open-only": (
        (
            "other machines reach the port for Redis clients only; grpc_host and http_host open the"
            " others"
        ),
    ),
    "console-without-figures": ("the console has no more figures",),
    "command-bug": ("a bug: a command failed, and has changed nothing; the node goes on",),
    "run-bug": (
        (
            "a bug: commands that were called together failed, and have changed nothing; they are "
            "called one by one"
        ),
    ),
    # Secrets, users, certificates.
    "peers-unauthenticated": (
        (
            "peers are not authenticated, and their links not encrypted (insecure_peers): any"
            " program that reaches the gRPC port can pose as a region"
        ),
    ),
    "users-readable": (
        (
            "all users of this machine can read the passwords of users, or their hashes; chmod 600"
            " the file"
        ),
    ),
    "password-readable": (
        "all users of this machine can read the password; chmod 600 the file",
        (
            "all users of this machine can read the settings, which have the password; chmod 600"
            " the file, or set requirepass_file"
        ),
    ),
    "password-in-environment": (
        (
            "the password is in the environment ({}), which programs of this user can read and pass"
            " on; write it into a file, and name that by requirepass_file"
        ),
    ),
    "password-short": (
        (
            "a password is short (fewer than {} bytes), and other machines can guess it: make one"
            " with ACL GENPASS"
        ),
    ),
    "folder-readable": (
        (
            "all users of this machine can open the folder of this region, which has all entries;"
            " chmod 700 it"
        ),
    ),
    "login-refused": ("wrong user or password",),
    "call-refused-for-certificate": ("a call is refused for its certificate",),
    "passwords-differ": ("passwords differ",),
    "aclfile-not-written": ("aclfile not written",),
    "certificates-new": ("new certificates",),
    "certificates-unchanged": ("certificates are as they were; they go on",),
    "certificates-refused": ("changed certificates are not used; the former ones go on",),
    "certificate-revoked": (
        (
            "the certificate of this node was revoked: other regions refuse it; issue a new one for"
            " this node, and replace the files"
        ),
    ),
    "authorities-changed": ("the authorities have changed: links begin again",),
    # Clients.
    "client-cut-off": ("client cut off",),
    "client-evicted": ("client evicted for maxmemory-clients",),
    "client-not-accepted": (
        "a client cannot be accepted",
        "no client can be accepted; raise the limit of open files",
    ),
    "http-not-accepted": ("no HTTP connection can be accepted",),
    "handshake-failed": ("TLS handshake failed", "TLS handshake dropped"),
    "keys-flushing": ("all keys are deleted: crdb flush",),
    "keys-flushed": ("all keys are deleted",),
    # Writes.
    "writes-accepted": ("writes are accepted",),
    "writes-refused": ("writes are refused",),
    "writes-accepted-without-effects": (
        "writes are taken though effects lack that peers had: none has come for long",
    ),
    "lag-too-large": ("too much of this region is in no other region",),
    "lag-small-again": ("enough of this region is in another region again",),
    # The disk.
    "appendfsync-changed": ("appendfsync changed",),
    "log-refused": ("the log cannot be written; writes are refused",),
    "log-written-again": ("the log can be written again; writes are accepted",),
    "log-not-cut": ("the log cannot be cut; it is tried again",),
    "log-end-lost": ("the end of the log is lost: the node goes on with what is left",),
    "log-keepers-unknown": ("cannot see whom the log is kept for",),
    "folder-refused": ("the folder cannot be written; it is tried again",),
    "folder-written-again": ("the folder is written again",),
    "folder-size-unknown": ("cannot see how large the folder is",),
    "folder-full": ("the folder is larger than maxdisk; what adds data is refused",),
    "folder-has-room": ("the folder is within maxdisk again",),
    "folder-without-marker": (
        (
            "no marker can be written beside the folder: if its data are deleted, or its disk is"
            " not mounted, a start without peers takes the empty folder for a new database"
        ),
    ),
    "checkpoint-failed": ("a checkpoint could not be written",),
    "checkpoint-damaged": ("a checkpoint is damaged; the one before it and the log are read",),
    "entries-unreadable": ("entries cannot be read from disk",),
    # Links.
    "link": ("link",),
    "link-live": ("link live",),
    "link-down": ("link down",),
    "link-refused": ("link refused",),
    "link-needs-bootstrap": ("link needs a bootstrap",),
    "links-behind-log": ("links cannot send what the log does not have",),
    "clocks-differ": ("clocks differ",),
    "relay-asked": ("batches wait for other origins: asking this peer for them too",),
    "puller-silent": ("puller is silent: its link ends",),
    "peer-not-served": ("cannot serve a peer",),
    "removed-effects-refused": ("effects of a removed region that do not count are refused",),
    # A region that lacks something.
    "bootstrap-copying": ("bootstrap: the state of a peer is copied",),
    "bootstrap-merging": ("bootstrap: the state is merged",),
    "bootstrap-done": ("bootstrap: done",),
    "bootstrap-failed": ("bootstrap failed",),
    "bootstrap-again": ("a bootstrap begins again: what was staged is damaged",),
    "bootstrap-not-cleaned": ("what was staged cannot be deleted; it is tried again",),
    "state-sending": ("the state is sent",),
    "state-sent": ("the state was sent",),
    "state-not-sent": ("the state is not sent",),
    "state-unreadable": ("the state cannot be sent",),
    "repair-comparing": ("repair: a key is compared",),
    "repair-done": ("repair: the key is replaced",),
    "recovering": ("peers have effects of this region that it lost: it recovers",),
    "ready": ("ready",),
    "peer-lost-effects": ("a peer has lost effects of this region: all are asked again",),
    "folder-copied": (
        "a peer has other effects of this region: two copies of its folder were used",
    ),
    "folder-earlier": ("this folder is an earlier one of its region: it takes no writes",),
    "incarnation": ("incarnation",),
    # Members.
    "database": ("database",),
    "peers-changed": ("the peers have changed",),
    "member-joins": ("a node joins",),
    "member-not-let-in": ("a node is not let in",),
    "other-members-in-file": ("the file names other members",),
    "members-decided-twice": ("members were decided twice",),
    "member-message-refused": (
        "a message on members is refused",
        "a region does not take this region's messages",
    ),
    "region-not-active": ("this region is not active yet",),
    "region-sealed": (
        "this region is sealed: it is being removed",
        "this region is sealed for its removal, which may be decided any time",
    ),
    "region-unsealed": ("this region is not sealed any more",),
    "removed-region-complete": ("removed region: all is here",),
}

_EXACT: Final = {text: name for name, texts in NAMES.items() for text in texts}
_WITH_GAPS: Final = [
    (re.compile(".*".join(map(re.escape, text.split("{}")))), name)
    for text, name in _EXACT.items()
    if "{}" in text
]


def name_of(text: str) -> str:
    """The name of what a sentence says."""
    name = _EXACT.get(text)
    if name is None:
        name = next((name for pattern, name in _WITH_GAPS if pattern.fullmatch(text)), UNNAMED)
    return name


def as_json(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    """Render a line of the log as one JSON object (a processor of structlog).

    ``time``, ``level``, ``event`` (the name) and ``message`` (the sentence) come first.  What JSON
    has no form for is text: no value can cost the node its line.
    """
    text = str(event.pop("event", ""))
    line = {
        "time": event.pop("timestamp", None),
        "level": event.pop("level", None),
        "event": name_of(text),
        "message": text,
    }
    details = {name: value for name, value in event.items() if name not in line}
    return json.dumps(_plain(line | details), ensure_ascii=False)


def _plain(value: object) -> object:
    """A value that JSON has a form for."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if abs(value) < float("inf") else str(value)
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case Mapping():
            return {str(_plain(key)): _plain(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(one) for one in value]
    return str(value)
