"""The causes as they are documented. The texts are the docstrings of their modules."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from . import CAUSES, legal_absence


class Cause(NamedTuple):
    """A cause as it is documented."""

    name: str
    title: str
    about: str  # paragraphs
    evidence: str  # needed to prove it
    remedy: str
    citation: str


@cache
def catalogue() -> dict[str, Cause]:
    """All causes by name, causes of a loss first."""
    found = {cause.name: cause for cause in _documented()}
    first = [name for name in CAUSES if name in found]
    return {name: found[name] for name in (*first, *(name for name in sorted(found) if name not in first))}


def title_of(name: str) -> str:
    """A cause in a sentence without its full stop; empty for a name that is no cause, such as "unknown"."""
    cause = catalogue().get(name)
    return cause.title.removesuffix(".") if cause else ""


def _documented() -> Iterator[Cause]:
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        cause = import_module(f".{module.name}", __package__)
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
        yield Cause(name, title, "No loss: the legal reason why records are absent.", absences[name], remedy, citation)


def _line(text: str) -> str:
    return " ".join(text.split())
