"""`logjudge causes`: lists the causes, explains one, or prints docs/causes.md."""

from __future__ import annotations

import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import click

from ..analysis import causes
from ..analysis.causes import legal_absence
from ..histories.errors import UsageError, did_you_mean
from .completing import completed

_LINKS = {
    "KIP": "https://cwiki.apache.org/confluence/display/KAFKA/KIP-{}",
    "KAFKA": "https://issues.apache.org/jira/browse/KAFKA-{}",
}
_REFERENCE = re.compile(r"\b(KIP|KAFKA)-(\d+)\b")
WIDTH = 92


class Cause(NamedTuple):
    """A cause as it is documented."""

    name: str
    title: str
    about: str  # paragraphs
    evidence: str  # needed to prove it
    remedy: str
    citation: str

    def links(self) -> list[tuple[str, str]]:
        """The KIPs and tickets that its text mentions, with their addresses."""
        found = _REFERENCE.findall(self.citation + self.about)
        return [(f"{kind}-{number}", _LINKS[kind].format(number)) for kind, number in dict.fromkeys(found)]


def catalogue() -> dict[str, Cause]:
    """All causes by name, causes of a loss first. The texts are the modules' docstrings."""
    found = {cause.name: cause for cause in _documented()}
    first = [name for name in causes.CAUSES if name in found]
    return {name: found[name] for name in (*first, *(name for name in sorted(found) if name not in first))}


def _documented() -> Iterator[Cause]:
    for module in pkgutil.iter_modules(causes.__path__):
        cause = import_module(f"{causes.__name__}.{module.name}")
        if not isinstance(getattr(cause, "NAME", None), str):
            continue
        first, *rest = (inspect.getdoc(cause) or "").split("\n\n")
        evidence = [text.removeprefix("Needs: ") for text in rest if text.startswith("Needs: ")]
        about = [text for text in rest if not text.startswith("Needs: ")]
        title = first.partition(": ")[2]
        needs = _line(" ".join(evidence))
        yield Cause(cause.NAME, _line(title), "\n\n".join(map(_line, about)), needs, cause.REMEDY, cause.CITATION)
    absences = dict(re.findall(r"^(\w+) needs (.+)$", inspect.getdoc(legal_absence) or "", re.MULTILINE))
    for name, title, remedy, citation in (
        (
            legal_absence.RETENTION,
            "records were deleted as configured or requested.",
            legal_absence.RETENTION_REMEDY,
            legal_absence.RETENTION_CITATION,
        ),
        (
            legal_absence.COMPACTION,
            "a newer record of the key replaced them.",
            legal_absence.COMPACTION_REMEDY,
            legal_absence.COMPACTION_CITATION,
        ),
    ):
        yield Cause(name, title, "No loss, but the reason for an absence.", absences[name], remedy, citation)


def _line(text: str) -> str:
    return " ".join(text.split())


@click.command()
@click.argument("name", metavar="[CAUSE]", required=False, shell_complete=completed(lambda: catalogue()))
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
    else:
        raise UsageError(f"found {name}, expected one of {', '.join(known)}{did_you_mean(name, known)}")


def _explain(cause: Cause) -> None:
    click.echo(f"{click.style(cause.name, bold=True)}: {cause.title}")
    titled = (("", cause.about), ("Evidence needed: ", cause.evidence), ("Remedy: ", cause.remedy))
    for title, text in titled:
        for paragraph in filter(None, text.split("\n\n")):
            click.echo("\n" + textwrap.fill(title + paragraph, WIDTH))
    click.echo("\n" + textwrap.fill(f"See: {cause.citation}", WIDTH))
    for _, link in cause.links():
        click.echo(f"  {link}")


def document() -> str:
    """docs/causes.md, from the same texts."""
    head = (
        "# The causes\n\nWritten by `logjudge causes --markdown`; a test keeps both the same. A cause is named only"
        " where the evidence proves it. Otherwise the cause is `unknown`, and the report lists what is missing."
        " `logjudge explain RUN` shows the chain of facts.\n"
    )
    return head + "".join(map(_section, catalogue().values()))


def _section(cause: Cause) -> str:
    see = _REFERENCE.sub(lambda match: f"[{match[0]}]({_LINKS[match[1]].format(match[2])})", cause.citation)
    lines = [f"\n## {cause.name}\n", f"{cause.title[:1].upper()}{cause.title[1:]}\n"]
    lines += [f"{cause.about}\n"] if cause.about else []
    lines += [f"- Evidence needed: {cause.evidence}"] if cause.evidence else []
    lines += [f"- Remedy: {cause.remedy}"] if cause.remedy else []
    return "\n".join([*lines, f"- See: {see}", ""])
