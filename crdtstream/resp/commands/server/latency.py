"""LATENCY: when the server was held up, and how long each command takes.

Two things under one name, as in Redis.  The *monitor* keeps, for each kind of event, the times when
it took ``threshold_ms`` or longer; it is off while that is 0.  HISTOGRAM always has every command.

Always so: of each event no more than SAMPLES_MAX samples are kept, one per second at most.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from crdtstream.commands.arguments import shown
from crdtstream.commands.command import documented
from crdtstream.commands.reply import CommandError, Reply, RespMap, Verbatim
from crdtstream.commands.subcommands import help_reply
from crdtstream.core.ids import Millis
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.database.statistics import CallStatistics, Statistics
from crdtstream.resp.commands.server.sparkline import sparkline

COMMAND: Final = "command"
FAST_COMMAND: Final = "fast-command"
# Redis's size of the history.
SAMPLES_MAX: Final = 160
GRAPH_COLUMNS: Final = 80

HELP: Final = (
    "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    (
        "    Return a cumulative distribution of latencies in the format of a histogram for the "
        "specified command names."
    ),
    "    If no commands are specified then all histograms are replied.",
    "HELP",
    "    Print this help.",
)
DISABLED: Final = (
    "The latency monitor is off, so nothing was observed. Turn it on with "
    '"CONFIG SET latency-monitor-threshold <milliseconds>" and ask again later.\n'
)
NOTHING: Final = (
    "Nothing took as long as latency-monitor-threshold ({threshold} ms). All is well.\n"
)
ADVICE: Final = (
    "\nWhat to look at:\n\n"
    "- SLOWLOG GET names the commands that took long, with their arguments.\n"
    "- Commands over many entries (XRANGE without COUNT, XINFO STREAM FULL COUNT 0, DEL of a long "
    "stream, KEYS) hold up all clients: ask for less at a time.\n"
)


@dataclass(slots=True)
class Event:
    """Samples of one kind of event.

    Attributes:
        samples: (unix seconds, ms), the oldest first.
        max_ms: the worst since the last reset.
    """

    samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    max_ms: int = 0


class LatencyMonitor:
    """The events, the histograms and the commands.

    Attributes:
        threshold_ms: least duration of an event; 0: there are no events.
        events: by name.
    """

    def __init__(self, statistics: Statistics, *, threshold_ms: int) -> None:
        self.threshold_ms = threshold_ms
        self._statistics = statistics
        self.events: dict[str, Event] = {}

    @property
    def threshold_ns(self) -> int | None:
        """None: it is off."""
        return self.threshold_ms * 1_000_000 if self.threshold_ms else None

    def note(self, name: str, *, ms: int, unix_s: int) -> None:
        """Something took ``ms``; it is kept if that is long enough."""
        if not 0 < self.threshold_ms <= ms:
            return
        event = self.events.setdefault(name, Event())
        event.max_ms = max(event.max_ms, ms)
        if event.samples and event.samples[-1][0] == unix_s:
            event.samples[-1] = (unix_s, max(ms, event.samples[-1][1]))
        else:
            event.samples.append((unix_s, ms))

    # --- Commands -----------------------------------------------------------------------------

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"latency|doctor": self._doctor,
            b"latency|graph": self._graph,
            b"latency|histogram": self._histogram,
            b"latency|history": self._history,
            b"latency|latest": self._latest,
            b"latency|reset": self._reset,
            b"latency|help": self._help,
        }
        return documented(SessionCommand, functions)

    def _latest(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """LATENCY LATEST: each event's name, its last time, what it took then, and the worst."""
        return [
            [name.encode(), *event.samples[-1], event.max_ms]
            for name, event in sorted(self.events.items())
        ]

    def _history(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """LATENCY HISTORY event: its samples, the oldest first."""
        event = self.events.get(shown(argv[2]))
        return [] if event is None else [[unix_s, ms] for unix_s, ms in event.samples]

    def _reset(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """LATENCY RESET [event …]: forget these, or all; how many there were."""
        names = [shown(name) for name in argv[2:]] or list(self.events)
        return sum(self.events.pop(name, None) is not None for name in names)

    def _graph(self, _session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """LATENCY GRAPH event: a picture of its history, each sample with its age below."""
        name = shown(argv[2])
        event = self.events.get(name)
        if event is None:
            raise CommandError(f"ERR No samples available for event '{name}'")
        values = [ms for _, ms in event.samples]
        head = f"{name} - high {max(values)} ms, low {min(values)} ms "
        head += f"(all time high {event.max_ms} ms)\n{'-' * GRAPH_COLUMNS}\n"
        labels = [age(now // 1000 - unix_s) for unix_s, _ in event.samples]
        return Verbatim((head + sparkline(values, labels, columns=GRAPH_COLUMNS)).encode())

    def _doctor(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """LATENCY DOCTOR: what was observed, in words."""
        if not self.threshold_ms:
            return Verbatim(DISABLED.encode())
        if not self.events:
            return Verbatim(NOTHING.format(threshold=self.threshold_ms).encode())
        lines = [
            f"{number}. {name}: {_summary(event)}\n"
            for number, (name, event) in enumerate(sorted(self.events.items()), start=1)
        ]
        return Verbatim(("Something held up this server:\n\n" + "".join(lines) + ADVICE).encode())

    def _histogram(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """LATENCY HISTOGRAM [command …]: calls, and a distribution of what they took, in us.

        A command that has subcommands stands for all of them.
        """
        used = [(name, calls) for name, calls in self._statistics.used() if calls.calls]
        found = used
        if len(argv) > 2:
            wanted = [name.lower() for name in argv[2:]]
            found = [pair for name in wanted for pair in used if _is_or_is_of(pair[0], name)]
        return RespMap([(name, _distribution(calls)) for name, calls in found])

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """LATENCY HELP."""
        return help_reply(HELP)


def age(seconds: int) -> str:
    """``7s``, ``3m``, ``5h``, ``2d``."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _summary(event: Event) -> str:
    values = [ms for _, ms in event.samples]
    mean = sum(values) / len(values)
    deviation = sum(abs(value - mean) for value in values) / len(values)
    seconds = event.samples[-1][0] - event.samples[0][0]
    period = seconds / (len(values) - 1) if len(values) > 1 else 0
    return (
        f"{len(values)} latency spikes (average {mean:.0f}ms, mean deviation {deviation:.0f}ms, "
        f"period {period:.2f} sec). Worst all time event {event.max_ms}ms."
    )


def _is_or_is_of(name: bytes, wanted: bytes) -> bool:
    return name == wanted or name.startswith(wanted + b"|")


def _distribution(calls: CallStatistics) -> Reply:
    pairs: list[tuple[Reply, Reply]] = [(usec, count) for usec, count in calls.distribution()]
    return RespMap([(b"calls", calls.calls), (b"histogram_usec", RespMap(pairs))])
