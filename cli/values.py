"""`logjudge values DIR [RULE]`: the values of a judged run's findings, such as all lost messages, for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from ..analysis.wording import printable
from ..histories.errors import unknown_name
from .options import LocalPath, complete_names

LOST_WRITE, COMMITTED = "lost-write", "committed-absent"  # without a client history the latter has the losses


def _rules() -> list[str]:
    from ..analysis.rules import RULES

    return list(RULES)


@click.command()
@click.argument("folder", metavar="DIR", type=LocalPath())
@click.argument("rule", metavar="[RULE]", default=LOST_WRITE, shell_complete=complete_names(_rules))
def command(folder: Path, rule: str) -> None:
    """Print the values of a rule's breaches, one a line after its partition and a tab: of lost-write unless named.

    DIR is a folder that `logjudge check` wrote. Without a client history committed-absent has the lost values that an
    earlier copy of a log has, and replica-divergence those that other records replaced.
    """

    if rule not in _rules():
        raise unknown_name("rule", rule, _rules(), "`logjudge rules`")
    from ..plots.report.saved import load

    breaches = load(folder).findings.filter(severity="violation")
    findings = breaches.filter(rule=rule)
    for topic, partition, values in findings.select("topic", "partition", "values").iter_rows():
        name = "" if topic is None else f"{printable(topic)}-{partition}"
        for value in values or ():
            click.echo(f"{name}\t{printable(value)}")
    if findings.is_empty():
        has_committed = rule == LOST_WRITE and len(breaches.filter(rule=COMMITTED))
        hint = f"; {COMMITTED} is broken: `logjudge values {folder} {COMMITTED}`" if has_committed else ""
        click.echo(f"no breach of {rule} was found{hint}", err=True)
    elif not findings["values"].list.len().sum():
        click.echo(f"no collected file has the values of {rule}", err=True)
