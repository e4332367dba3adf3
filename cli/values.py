"""`logjudge values DIR [RULE]`: the values of a judged run's findings, such as all lost messages, for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from ..analysis.wording import printable
from ..histories.errors import unknown_name
from .options import LocalPath, complete_names


def _rules() -> list[str]:
    from ..analysis.rules import RULES

    return list(RULES)


@click.command()
@click.argument("folder", metavar="DIR", type=LocalPath())
@click.argument("rule", metavar="[RULE]", default="lost-write", shell_complete=complete_names(_rules))
def command(folder: Path, rule: str) -> None:
    """Print the values of a rule's breaches, one a line after its partition and a tab: of lost-write unless named.

    DIR is a folder that `logjudge check` wrote. Without a client history no loss is found, but replica-divergence has
    the values that other records replaced.
    """
    import polars as pl

    if rule not in _rules():
        raise unknown_name("rule", rule, _rules(), "`logjudge rules`")
    from ..plots.report.saved import load

    findings = load(folder).findings.filter(pl.col("rule") == rule, pl.col("severity") == "violation")
    for topic, partition, values in findings.select("topic", "partition", "values").iter_rows():
        name = "" if topic is None else f"{printable(topic)}-{partition}"
        for value in values or ():
            click.echo(f"{name}\t{printable(value)}")
    if findings.is_empty():
        click.echo(f"no breach of {rule} was found", err=True)
