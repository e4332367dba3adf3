"""`logjudge search`: try many schedules for one that breaks an invariant, and shrink it."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from ..analysis.wording import plural
from ..histories.errors import UsageError, meant
from ..histories.simulation import scenario_file
from ..models.replication.config import ConfigError
from ..models.replication.invariants import INVARIANTS
from ..models.replication.scenario import Scenario
from ..models.replication.schedule import PATTERNS
from ..models.replication.search import SURVIVABLE, Explored, Space, explore, explore_payload, shrink, story
from ..models.replication.variants import VARIANTS
from .completing import completed
from .engines import session_of, spark_options
from .main import EXIT_BREACH
from .paths import LocalPath
from .scenarios import picture
from .simulate import option

CHUNK = 200  # seeds in one piece of work
# What shows a breach best; the lanes of leaders and ISRs show all others.
PICTURES = {"no-divergence": "replicas", "no-consumer-loss": "offsets", "no-stale-read": "lag"}

Work = tuple[Space, range, tuple[str, ...], bool]


@click.command("search")
@click.option("--variant", required=True, type=click.Choice(list(VARIANTS)), help="Which protocol.")
@click.option(
    "--invariant",
    default="no-acknowledged-loss",
    show_default=True,
    type=click.Choice(list(INVARIANTS)),
    help="What must hold.",
)
@click.option("--runs", default=10_000, show_default=True, type=click.IntRange(1), help="How many schedules.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="How many processes.")
@click.option("--spark", is_flag=True, help="Spread the seeds over Spark instead of processes.")
@spark_options
@click.option(
    "--faults",
    help="Kinds of faults, with commas; by default all that a log must survive.",
    shell_complete=completed(lambda: PATTERNS),
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A configuration, by Kafka's name.")
@click.option(
    "--out",
    type=LocalPath(),
    help="The file (.toml) of the shrunk scenario; its picture stands beside it.",
)
@click.pass_context
def command(
    ctx: click.Context,
    variant: str,
    invariant: str,
    runs: int,
    seed: int,
    jobs: int,
    spark: bool,
    master: str | None,
    remote: str | None,
    conf: tuple[str, ...],
    faults: str | None,
    settings: tuple[str, ...],
    out: Path | None,
) -> None:
    """Search for the schedule that loses: exit 1 with its story if there is one, 0 if none was found."""
    kinds = tuple(kind.strip() for kind in faults.split(",")) if faults else default_kinds(variant)
    for kind in (kind for kind in kinds if kind not in PATTERNS):
        there = ", ".join(PATTERNS) + meant(kind, PATTERNS)
        raise UsageError(f"there is no fault {kind!r} to draw; there are {there}")
    space = Space(variant, kinds, dict(option(text) for text in settings))
    path = out or Path(f"{variant}-{invariant}.toml")
    # Before hours of searching.
    if path.suffix != ".toml":
        raise UsageError(f"--out {path}: expected a file that ends in .toml")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--out {path}: there is no folder {path.absolute().parent}")
    try:
        space.scenario(seed)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    session = None
    if spark:
        from ..analysis.spark import open_session

        session = open_session(*session_of(master, remote, conf))
    elif master or remote or conf:
        raise UsageError("found --master, --remote or --conf, expected --spark with them")
    began = time.monotonic()
    explored = search(space, range(seed, seed + runs), (invariant,), jobs, session=session)
    took = time.monotonic() - began
    click.echo(
        f"{explored.runs} schedules, {len(explored.states)} distinct states, {explored.events} protocol "
        f"events in {took:.1f} s"
        + (f"; in {explored.unfinished} of them a partition had no leader in the end" if explored.unfinished else "")
    )
    if invariant not in explored.first:
        click.echo(f"{invariant} held in all of them")
        return
    losing, text = explored.first[invariant]
    click.echo(f"seed {losing} breaks {invariant}: {text}")
    small, tries = shrink(space.scenario(losing), invariant)
    small = replace(small, breaks=(invariant,))
    told, _ = story(small)
    small = replace(
        small,
        name=f"{variant}-{invariant}",
        title=f"{invariant} broken by {variant}",
        story="\n".join(told),
        picture=PICTURES.get(invariant, small.picture),
    )
    click.echo(f"shrunk in {plural(tries, 'run')} to {_size(small)}:")
    click.echo("\n".join(told))
    drawn = path.with_suffix(".svg")
    try:
        path.write_bytes(scenario_file.dump(small).encode())
        picture(small, drawn, small.title)
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be written ({error.strerror})") from error
    click.echo(f"written to {path} and {drawn}; replay it with: logjudge simulate --config {path} --out RUN")
    ctx.exit(EXIT_BREACH)


def _size(small: Scenario) -> str:
    return f"{plural(len(small.faults), 'fault')} and {plural(small.config().ops, 'record')}"


def default_kinds(variant: str) -> tuple[str, ...]:
    """What every log must survive, and what this variant is said not to."""
    return (*SURVIVABLE, *(kind for kind in VARIANTS[variant].needs if kind not in SURVIVABLE))


def search(
    space: Space, seeds: range, invariants: tuple[str, ...], jobs: int, stop: bool = True, session: Any = None
) -> Explored:
    """Explore seeds in chunks, spread over processes or over a session of Spark; the result depends on neither."""
    work = [(space, seeds[start : start + CHUNK], invariants, stop) for start in range(0, len(seeds), CHUNK)]
    total = Explored()
    for part in _on_spark(work, session) if session else _run(work, jobs):
        total.add(part)
        if stop and total.first:
            break
    return total


def _run(work: list[Work], jobs: int) -> Iterator[Explored]:
    if jobs == 1 or len(work) == 1:
        yield from map(_explore, work)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_explore, work)


def _on_spark(work: list[Work], session: Any) -> Iterator[Explored]:
    """In the order of the seeds, as the first breach is to be the same."""
    from ..analysis.spark import map_payloads

    done = map(pickle.loads, map_payloads(explore_payload, map(pickle.dumps, enumerate(work)), session))
    yield from (explored for _, explored in sorted(done, key=itemgetter(0)))


def _explore(work: Work) -> Explored:
    return explore(*work)
