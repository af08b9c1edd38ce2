"""``crdtstream simulate``: many worlds that misbehave, each from a seed."""

import json
import secrets
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from crdtstream.sim.history import Step
from crdtstream.sim.replaying import AnyPlan, maker_of, plan_of, run, saved, shorten
from crdtstream.sim.seeds import first_failing, processes_for
from crdtstream.sim.violation import Failure


def simulate(
    context: typer.Context,
    seed: Annotated[int | None, typer.Option(help="First seed; drawn if absent.", min=0)] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from the first one on.", min=1)] = 1,
    steps: Annotated[int, typer.Option(help="Steps of each history.", min=1, max=1_000_000)] = 400,
    jobs: Annotated[
        int | None,
        typer.Option(help="Processes that share the seeds; by default as many as cores.", min=1),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="Run the history in this file instead.", exists=True, dir_okay=False),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Where to write a shortened history that fails.", dir_okay=False),
    ] = None,
) -> None:
    """Run regions in a world whose disks, lines and clocks fail, and check every invariant.

    Each seed makes another history.  After each step I1 to I23 are checked; at the end all faults
    end, and all regions must become equal.  A history that fails is shortened and printed.

    Example: crdtstream simulate --seed 1 --seeds 100 --steps 400

    Exit status: 0 all as it must be, 1 an invariant does not hold, 2 wrong input.
    """
    if save is not None and not save.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {save.parent}", param_hint="--save")
    if replay is not None:
        _replay(replay)
        return
    first = secrets.randbits(32) if seed is None else seed
    started = time.monotonic()
    jobs = processes_for(seeds) if jobs is None else jobs
    failing = first_failing(first, seeds, steps, jobs=jobs)
    if failing is not None:
        maker = maker_of(failing)
        taken, failure = maker.run(steps)
        assert failure is not None, "the same seed makes the same history"
        _tell(failing, maker.plan, taken, failure, save, again=f"{context.command_path} --replay")
        raise typer.Exit(code=1)
    seconds = time.monotonic() - started
    typer.echo(
        f"seeds {first} to {first + seeds - 1}, {steps} steps each: every invariant held "
        f"({seconds:.1f} s, {seeds / seconds * 60:.0f} seeds a minute)"
    )


def _replay(path: Path) -> None:
    """Run a saved history."""
    try:
        history = json.loads(path.read_text())
        plan = plan_of(history["plan"])
        steps: list[Step] = [tuple(step) for step in history["steps"]]
        failure = run(plan, steps)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        typer.echo(f"{path}: no history: {error}", err=True)
        raise typer.Exit(code=2) from error
    if failure is None:
        typer.echo(f"{path}: {len(steps)} steps: every invariant held")
        return
    typer.echo(f"{path}: {_where(failure, len(steps))}: {failure.reason}")
    raise typer.Exit(code=1)


def _where(failure: Failure, steps: int) -> str:
    return f"step {failure.at} of {steps}" if failure.at <= steps else "when all faults had ended"


def _tell(
    seed: int,
    plan: AnyPlan,
    steps: list[Step],
    failure: Failure,
    save: Path | None,
    *,
    again: str,
) -> None:
    """Print the failure of a history, and the shortest one found that fails in the same way.

    Args:
        again: the words that run a history, before its file.
    """
    typer.echo(f"seed {seed}, {_where(failure, len(steps))}: {failure.reason}")
    typer.echo("shortening …", err=True)
    short, found = shorten(plan, steps, failure)
    head = {"about": found.reason.splitlines()[0], "seed": seed, "plan": saved(plan)}
    lines = ",\n    ".join(json.dumps(step) for step in short)
    text = json.dumps(head, indent=2)[:-2] + f',\n  "steps": [\n    {lines}\n  ]\n}}\n'
    typer.echo(f"shortened to {len(short)} steps, fails at {_where(found, len(short))}")
    if save is not None:
        save.write_text(text)
        typer.echo(f"again: {again} {save}")
    else:
        sys.stdout.write(text)
        typer.echo(f"again: put this into a file, and: {again} FILE")
