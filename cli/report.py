"""`logjudge report DIR`: report.html, report.md and plots/ again, from saved results, without Spark."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from .paths import LocalPath

_PARTS = ("plots", "report.md", "report.html")


@click.command()
@click.argument("folder", metavar="DIR", type=LocalPath())
def command(folder: Path) -> None:
    """Write the report of DIR again, from the results that `logjudge check` saved there.

    The new report takes the place of the old one only when it is complete.
    """
    from ..plots.report import write_report
    from .saved import drawn_from, load

    saved = load(folder)
    made = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
    try:
        with drawn_from(folder):
            write_report(made, *saved)
        for name in _PARTS:
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                (folder / name).replace(made / f"old-{name}")
            (made / name).replace(folder / name)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    click.echo(f"{folder / 'report.html'}")
