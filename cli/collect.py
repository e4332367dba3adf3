"""`logjudge collect`: copies the evidence of brokers into a bundle."""

from __future__ import annotations

from pathlib import Path

import click

from ..histories.errors import UsageError
from ..histories.scratch import scratch_folder
from .output import printable
from .paths import LocalPath


@click.command("collect")
@click.argument("folders", nargs=-1, required=True, metavar="[ID=][HOST:]FOLDER...")
@click.option(
    "--out", required=True, type=LocalPath(), help="The bundle: a new folder, or a recorded run without brokers/."
)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated.")
@click.option("--internal", is_flag=True, help="Kafka's own topics too, such as __share_group_state.")
def command(folders: tuple[str, ...], out: Path, topics: tuple[str, ...], internal: bool) -> None:
    """Copy segments, checkpoints, metadata and logs of brokers into a bundle that `check` judges.

    FOLDER is a broker's log.dirs, its folder of logs (server.log), or one around both; ID=FOLDER names the broker where
    no meta.properties does. [USER@]HOST:FOLDER or ssh://[USER@]HOST[:PORT]/FOLDER is on another machine and copied by
    the system's ssh, without asking for a password. The brokers may run: their files are only read, and a segment that
    grows is cut at a whole batch.
    """
    from ..histories.recording.collect import collect, fetch_sources

    if (out / "brokers").exists():
        raise UsageError(f"{out}: found brokers/, expected a bundle without; choose another --out")
    parent = out.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(parent, ".logjudge-collect-") as scratch:
        sources, problems = fetch_sources(folders, scratch, topics, internal)
        done = collect(sources, out, topics, internal)
    for line in [*problems, *(f"no permission to read {path}" for path in done.unreadable)]:
        click.echo(printable(line), err=True)
    click.echo(f"{out}: {done.files} files ({done.bytes:,} bytes) of brokers {', '.join(done.brokers)}")
