"""`logjudge causes`: lists the causes, explains one, or prints docs/causes.md."""

from __future__ import annotations

import textwrap

import click

from ..analysis.causes import Cause, catalogue
from ..analysis.rules import ALL_RULES
from ..histories.errors import UsageError, unknown_name
from ..histories.references import markdown_link, references_in, with_links
from .options import complete_names

WIDTH = 92


@click.command()
@click.argument("name", metavar="[CAUSE]", required=False, shell_complete=complete_names(catalogue))
@click.option("--markdown", is_flag=True, help="Print docs/causes.md.")
def command(name: str | None, markdown: bool) -> None:
    """List the causes, or explain one: the evidence that proves it, its prevention, and its documentation."""
    known = catalogue()
    if markdown:
        click.echo(document(), nl=False)
    elif name is None:
        for cause in known.values():
            click.echo(f"{cause.name:26} {cause.title}")
    elif name in known:
        _explain(known[name])
    elif name in ALL_RULES:
        raise UsageError(f"{name} is a rule, not a cause; `logjudge rules {name}` explains it")
    else:
        raise unknown_name("cause", name, known, "`logjudge causes`")


def _explain(cause: Cause) -> None:
    click.echo(f"{click.style(cause.name, bold=True)}: {cause.title}")
    titled = (("", cause.about), ("Evidence needed: ", cause.evidence), ("Remedy: ", cause.remedy))
    for title, text in titled:
        for paragraph in filter(None, text.split("\n\n")):
            click.echo("\n" + textwrap.fill(title + paragraph, WIDTH))
    click.echo("\n" + textwrap.fill(f"See: {cause.citation}", WIDTH))
    for reference in references_in(cause.citation + cause.about):
        click.echo(f"  {reference.url}")


def document() -> str:
    """docs/causes.md, from the same texts."""
    head = (
        "# The causes\n\nWritten by `logjudge causes --markdown`; a test keeps both the same. A cause is named only"
        " where the evidence proves it. Otherwise the cause is `unknown`, and the report lists what is missing."
        " `logjudge explain RUN` shows the chain of facts.\n"
    )
    return head + "".join(map(_section, catalogue().values()))


def _section(cause: Cause) -> str:
    see = with_links(cause.citation, markdown_link)
    lines = [f"\n## {cause.name}\n", f"{cause.title[:1].upper()}{cause.title[1:]}\n"]
    lines += [f"{cause.about}\n"] if cause.about else []
    lines += [f"- Evidence needed: {cause.evidence}"] if cause.evidence else []
    lines += [f"- Remedy: {cause.remedy}"] if cause.remedy else []
    return "\n".join([*lines, f"- See: {see}", ""])
