"""`logjudge collect`: copies the evidence of brokers into a bundle."""

from __future__ import annotations

from pathlib import Path

import click

from ..histories.errors import UsageError
from .paths import LocalPath


@click.command("collect")
@click.argument("folders", nargs=-1, required=True, metavar="[ID=]FOLDER...")
@click.option(
    "--out", required=True, type=LocalPath(), help="The bundle: a new folder, or a recorded run without brokers/."
)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated.")
@click.option("--internal", is_flag=True, help="Kafka's own topics too, such as __transaction_state.")
def command(folders: tuple[str, ...], out: Path, topics: tuple[str, ...], internal: bool) -> None:
    """Copy segments, checkpoints, metadata and logs of brokers into a bundle that `check` judges.

    FOLDER is a broker's log.dirs, its folder of logs (server.log), or one around both; ID=FOLDER names the broker where
    no meta.properties does. The brokers may run: their files are only read, and a segment that grows is cut at a whole
    batch.
    """
    from ..histories.recording.collect import collect, sources_of

    if (out / "brokers").exists():
        raise UsageError(f"{out}: found brokers/, expected a bundle without; choose another --out")
    done = collect(sources_of(folders), out, topics, internal)
    for path in done.unreadable:
        click.echo(f"no permission to read {path}", err=True)
    click.echo(f"{out}: {done.files} files ({done.bytes:,} bytes) of brokers {', '.join(done.brokers)}")
