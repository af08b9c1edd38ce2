"""``make bench``: everything beside the real peer, in one interleaved run.

    python -m benchmarks [--part xadd …] [--rounds 3] [--scale 1] [--against TREE]
        [--json FILE] [--record] [--list]

Each part starts its systems side by side and measures them in turns, round by round.  Printed is a
table of each part: ratio to the peer first, then the median and its spread.  ``--record`` keeps the
raw figures in benchmarks/results and writes docs/performance.md, docs/scaling.md and docs/sizing.md
from them.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from benchmarks import pages, tables
from benchmarks.measured import Outcome
from benchmarks.parts.all import PARTS
from benchmarks.parts.part import Options, Part
from benchmarks.processes import machine
from benchmarks.systems import is_there, version
from crdtstream import compiled

NEEDED = ("redis-server", "redis-benchmark")


def main() -> None:
    options = _arguments()
    # Ended in good order, so that no server is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.list:
        for part in PARTS.values():
            print(f"{part.name:22} {part.about}")
        return
    if options.pages:
        pages.write()
        return
    if missing := [program for program in NEEDED if not is_there(program)]:
        raise SystemExit(f"{', '.join(missing)} missing; on Debian: apt-get install redis")
    outcomes = []
    for name in options.part or PARTS:
        outcome = measured(PARTS[name], options)
        outcomes.append(outcome)
        print(_told(outcome), flush=True)
        # At once: a run of all parts takes long, and may be ended.
        if options.record:
            pages.record(outcome)
        if options.json is not None:
            found = [one.to_json() for one in outcomes]
            options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.record:
        pages.write()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, help="only these; all without it")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each, in turns")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of all amounts; 0.1: a quick look"
    )
    parser.add_argument("--against", type=Path, help="another checkout, measured besides")
    parser.add_argument("--json", type=Path, help="where all figures go, too")
    parser.add_argument(
        "--record", action="store_true", help="keep the figures, and write the pages"
    )
    parser.add_argument("--pages", action="store_true", help="only write the pages again")
    parser.add_argument("--list", action="store_true", help="the parts, and what they measure")
    found = parser.parse_args()
    if found.rounds < 1 or found.scale <= 0:
        parser.error("--rounds and --scale must be above 0")
    if found.record and found.scale != 1:
        parser.error("--record wants all amounts: leave --scale out")
    return found


def measured(part: Part, options: argparse.Namespace) -> Outcome:
    """Run a part."""
    print(f"{part.name} …", file=sys.stderr, flush=True)
    load = os.getloadavg()[0]
    against = None if options.against is None else options.against.resolve()
    found = part.run(Options(options.rounds, options.scale, against))
    return Outcome(
        part=part.name,
        about=part.about,
        reference=part.reference,
        machine=machine(),
        load=load,
        version=f"{version()}, {compiled.how()}",
        samples=found.samples,
        skipped=found.skipped,
    )


def _told(outcome: Outcome) -> str:
    lines = [
        f"\n{outcome.part}: {outcome.about}",
        (
            f"{outcome.machine}, load {outcome.load:.1f}, version {outcome.version}"
            f"{outcome.legend()}"
        ),
        "",
        tables.text(list(tables.rows_of(outcome))),
        *(f"{system}: skipped, {why}" for system, why in outcome.skipped.items()),
    ]
    return "\n".join(lines)


main()
