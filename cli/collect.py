"""`logjudge collect`: copies the evidence of brokers into a bundle."""

from __future__ import annotations

from pathlib import Path

import click

from ..analysis.wording import brokers, printable
from ..histories.errors import UsageError
from ..histories.scratch import scratch_folder
from .options import LocalPath


@click.command("collect")
@click.argument("folders", nargs=-1, required=True, metavar="[ID=][HOST:]FOLDER...")
@click.option(
    "--out",
    required=True,
    type=LocalPath(),
    help="Folder of the bundle: a new one, or a recorded run without brokers/.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    help="Only this topic, beside those of groups and transactions; may be repeated.",
)
@click.option("--internal", is_flag=True, help="Also copy Kafka's own topics, such as __share_group_state.")
def command(folders: tuple[str, ...], out: Path, topics: tuple[str, ...], internal: bool) -> None:
    """Copy segments, checkpoints, metadata and logs of brokers into a bundle for `check`.

    FOLDER is a broker's log.dirs, its folder of server logs, or a parent of both. Logs belong to the brokers and
    controllers that their lines name. ID=FOLDER sets the id of files without one. [USER@]HOST:FOLDER and
    ssh://[USER@]HOST[:PORT]/FOLDER are on other machines; the system's ssh copies them, without asking for a
    password. Brokers may be running: collect only reads their files, and copies only whole batches of a growing
    segment.
    """
    from ..histories.recording.collect import collect, fetch_sources

    if (out / "brokers").exists():
        raise UsageError(f"{out}: found brokers/, expected a bundle without; choose another --out")
    parent = out.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(parent, ".logjudge-collect-") as scratch:
        sources, problems = fetch_sources(folders, scratch, topics, internal)
        done = collect(sources, out, topics, internal)
    unread = [f"no permission to read {path}" for path in done.unreadable]
    for line in [*problems, *unread, *(f"left out {line}" for line in done.left_out)]:
        click.echo(printable(line), err=True)
    for line in done.logs:
        click.echo(printable(f"copied {line}"))
    click.echo(f"{out}: {done.files} files ({done.bytes:,} bytes) of {brokers(done.brokers)}")
