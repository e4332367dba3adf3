"""`logjudge report DIR`: rewrites report.html, report.md and plots/ from saved results, without Spark."""

from __future__ import annotations

from pathlib import Path

import click

from ..histories.output_folder import REPORT, SCRATCH, move_into
from ..histories.scratch import scratch_folder
from .options import LocalPath, quiet_option


@click.command()
@click.argument("folder", metavar="DIR", type=LocalPath())
@quiet_option
def command(folder: Path) -> None:
    """Rewrite the report of DIR from the results that `logjudge check` saved there.

    The new report replaces the old one only when it is complete.
    """
    from ..plots.painting import start_painter
    from ..plots.report import write_report
    from ..plots.report.saved import drawn_from, load

    start_painter()
    saved = load(folder)
    with scratch_folder(folder, SCRATCH) as scratch:
        with drawn_from(folder):
            write_report(scratch, *saved)
        move_into(folder, scratch, REPORT)
    click.echo(f"{folder / 'report.html'}")
