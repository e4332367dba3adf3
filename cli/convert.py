"""`logjudge convert`: histories from one format into another."""

from __future__ import annotations

from pathlib import Path

import click

from ..histories.bundle import open_run
from ..histories.errors import UsageError
from .forms import from_option
from .main import EXIT_UNKNOWN, EXIT_VALID
from .paths import LocalPath
from .progress import Progress


@click.command()
@click.argument("source", metavar="IN", type=LocalPath(readable=False, takes_stdin=True))
@click.argument("target", metavar="OUT", type=LocalPath())
@from_option
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
def command(source: Path, target: Path, reader: str | None, overwrite: bool) -> int:
    """Write the history IN as OUT: .jsonl, .jsonl.gz, .jsonl.zst or .parquet, as its ending says.

    Parquet is read several times faster, and a history of Jepsen stays one in it; as JSON lines it is judged by the
    native rules. run.json is not part of a history: keep it beside OUT, and name OUT
    history.*, or put both into a folder. Exit code 3 where lines were malformed and left out.
    """
    from ..histories.convert import convert

    if target.exists() and not overwrite:
        raise UsageError(f"{target}: found a file, expected a new one; --overwrite replaces it")
    with Progress(target.name) as progress:
        events, bad = convert(open_run(source, reader), target, progress)
    click.echo(f"{events:,} events written to {target}")
    config = source / "run.json" if source.is_dir() else source.with_name("run.json")
    if config.is_file() and not target.with_name("run.json").exists():
        click.echo(f"rules need run.json too, which is no part of a history: copy {config} beside it", err=True)
    if bad:
        were = "line was" if bad == 1 else "lines were"
        click.echo(f"{bad:,} malformed {were} left out; `logjudge check {source}` tells why", err=True)
    return EXIT_UNKNOWN if bad else EXIT_VALID
