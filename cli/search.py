"""`logjudge search`: searches many schedules for one that breaks an invariant, and shrinks it."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from ..analysis.wording import duration, plural
from ..histories.errors import UsageError, unknown_name
from ..histories.simulation import scenario_file
from ..models.exploration.invariants import INVARIANTS
from ..models.exploration.narrative import narrate_scenario
from ..models.exploration.schedule import PATTERNS
from ..models.exploration.search import SURVIVABLE, Explored, Space, explore, explore_payload
from ..models.exploration.shrink import shrink
from ..models.replication.config import ConfigError
from ..models.replication.scenario import Scenario
from ..models.replication.variants import VARIANTS
from .engines import Spark, engine_options
from .main import EXIT_BREACH, EXIT_VALID
from .options import Choice, NewFile, complete_names, quiet_option
from .progress import Progress
from .scenarios import picture
from .simulate import VARIANT_HELP, listed, option, settings_option

CHUNK = 100  # seeds in one piece of work, so that progress is shown from the first seconds on
SECOND = 1_000_000_000  # ns
# The plot that shows a breach best; else the plot of leaders and ISRs.
PICTURES = {"no-divergence": "replicas", "no-consumer-loss": "offsets", "no-stale-read": "lag"}

Work = tuple[Space, range, tuple[str, ...], bool]
Command = Callable[..., Any]


def _space_options(command: Command) -> Command:
    """The options --variant, --faults and --set; the command gets them as one argument `space`."""

    @click.option("--variant", required=True, type=Choice(list(VARIANTS)), help="The protocol variant.")
    @click.option(
        "--faults",
        help="Kinds of faults, separated by commas [default: those that every log must survive].",
        shell_complete=complete_names(lambda: PATTERNS),
    )
    @settings_option
    @wraps(command)
    def with_space(variant: str, faults: str | None, settings: tuple[str, ...], **options: Any) -> Any:
        # By default the faults that every log must survive, and those that this variant is known not to survive.
        kinds = (*SURVIVABLE, *(kind for kind in VARIANTS[variant].needs if kind not in SURVIVABLE))
        if faults:
            kinds = tuple(kind.strip() for kind in faults.split(","))
        for kind in (kind for kind in kinds if kind not in PATTERNS):
            raise unknown_name("fault", repr(kind), PATTERNS, "`logjudge simulate --help`")
        return command(**options, space=Space(variant, kinds, dict(option(text) for text in settings)))

    return with_space


_INVARIANT_HELP = listed("Invariants", {name: invariant.text for name, invariant in INVARIANTS.items()})


@click.command("search", epilog=f"{VARIANT_HELP}\n\n{_INVARIANT_HELP}")
@_space_options
@click.option(
    "--invariant",
    default="no-acknowledged-loss",
    show_default=True,
    type=Choice(list(INVARIANTS)),
    help="The invariant that must hold.",
)
@click.option(
    "--runs",
    default=2_000,
    show_default="2000: half a minute to two minutes of one core",
    type=click.IntRange(1),
    help="Number of schedules.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Number of processes; with Spark, the master determines the parallelism.",
)
@engine_options(default="local")
@click.option(
    "--out", type=NewFile(".toml"), help="The file (.toml) for the shrunk scenario; its plot is written beside it."
)
@quiet_option
def command(
    space: Space, invariant: str, runs: int, seed: int, jobs: int, spark: Spark | None, out: Path | None
) -> int:
    """Search for a schedule that breaks an invariant, and print its events.

    Every variant has the defaults of Kafka 4.1, so that variants differ only in their rules; `simulate` without a file
    has those of the variant's own version. Beside them the search sets short timeouts, what reveals the variant's
    effect, and unclean.leader.election.enable=true if --faults has `unclean`. --set takes precedence. The output lists
    these settings, and the written file has all of them.

    Exit code: 0 none was found, 1 a schedule breaks the invariant.
    """
    name = f"{space.variant}-{invariant}"
    path = out or Path(f"{name}.toml")
    try:
        space.scenario(seed)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    with Progress(space.variant) as progress:
        session = spark and spark.open(progress)
        began = time.monotonic()
        explored = search(space, range(seed, seed + runs), (invariant,), jobs, session=session, progress=progress)
        took = time.monotonic() - began
    click.echo(
        f"{explored.runs:,} schedules, {len(explored.states):,} distinct states, {explored.events:,} protocol "
        f"events in {took:.1f} s"
        + (f"; in {explored.unfinished:,} of them a partition had no leader at the end" if explored.unfinished else "")
    )
    click.echo(f"settings: {space.settings()}")
    if invariant not in explored.first:
        click.echo(f"{invariant} held in all schedules")
        return EXIT_VALID
    failing, text = explored.first[invariant]
    click.echo(f"seed {failing} breaks {invariant}: {text}")
    _write_shrunk(space.scenario(failing), invariant, name, path)
    return EXIT_BREACH


def _write_shrunk(failing: Scenario, invariant: str, name: str, path: Path) -> None:
    """Writes the smallest scenario that breaks the invariant, with its events and plot. Raises UsageError."""
    with Progress(failing.variant) as progress:
        progress("shrinking", 0, 1, "schedules")
        small, tries = shrink(failing, invariant)
    small = replace(small, breaks=(invariant,))
    events, _ = narrate_scenario(small)
    small = replace(
        small,
        name=name,
        title=f"{invariant} broken by {small.variant}",
        story="\n".join(events),
        picture=PICTURES.get(invariant, small.picture),
    )
    size = f"{plural(len(small.faults), 'fault')} and {plural(small.config().ops, 'record')}"
    click.echo(f"shrunk in {plural(tries, 'run')} to {size}:")
    click.echo("\n".join(events))
    plot = path.with_suffix(".svg")
    try:
        path.write_bytes(scenario_file.dump(small).encode())
        picture(small, plot, small.title)
    except OSError as error:
        raise UsageError(f"--out {path}: cannot write ({error.strerror})") from error
    click.echo(f"written to {path} and {plot}; replay it with: logjudge simulate --config {path} --out RUN")


def search(
    space: Space,
    seeds: range,
    invariants: tuple[str, ...],
    jobs: int,
    stop: bool = True,
    session: Any = None,
    progress: Callable[..., None] = lambda *_: None,
) -> Explored:
    """Explores seeds in chunks, on several processes or a Spark session; the result depends on neither."""
    work = [(space, seeds[start : start + CHUNK], invariants, stop) for start in range(0, len(seeds), CHUNK)]
    total = Explored()
    progress("searching", 0, len(seeds), "schedules")
    began = time.monotonic()
    for part in _on_spark(work, session, progress) if session else _run(work, jobs):
        total.add(part)
        left = (time.monotonic() - began) / total.runs * (len(seeds) - total.runs)
        unit = f"schedules, about {duration(round(left) * SECOND)} left" if left >= 1 else "schedules"
        progress("searching", total.runs, len(seeds), unit)
        if stop and total.first:
            break
    return total


def _run(work: list[Work], jobs: int) -> Iterator[Explored]:
    if jobs == 1 or len(work) == 1:
        yield from map(_explore, work)
        return
    # Ctrl-C reaches all processes of a terminal; the pool would wait forever for killed workers.
    ignored = (signal.SIGINT, signal.SIG_IGN)
    with multiprocessing.get_context("spawn").Pool(jobs, signal.signal, ignored) as pool:
        yield from pool.imap(_explore, work)


def _on_spark(work: list[Work], session: Any, progress: Callable[..., None]) -> Iterator[Explored]:
    """Yields the results in the order of the seeds, so that the first breach is always the same."""
    from ..analysis.engines.spark import map_payloads

    done = map(pickle.loads, map_payloads(explore_payload, map(pickle.dumps, enumerate(work)), session, progress))
    yield from (explored for _, explored in sorted(done, key=itemgetter(0)))


def _explore(work: Work) -> Explored:
    return explore(*work)
