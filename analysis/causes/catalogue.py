"""The causes as they are documented. The texts are the docstrings of their modules."""

from __future__ import annotations

import inspect
from functools import cache
from types import ModuleType
from typing import NamedTuple

from . import CAUSES


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
    return {name: _documented(cause) for name, cause in CAUSES.items()}


def title_of(name: str) -> str:
    """A cause in a sentence without its full stop; empty for a name that is no cause, such as "unknown"."""
    cause = catalogue().get(name)
    return cause.title.removesuffix(".") if cause else ""


def _documented(cause: ModuleType) -> Cause:
    first, *rest = (" ".join(text.split()) for text in (inspect.getdoc(cause) or "").split("\n\n"))
    evidence = " ".join(text.removeprefix("Needs: ") for text in rest if text.startswith("Needs: "))
    about = "\n\n".join(text for text in rest if not text.startswith("Needs: "))
    return Cause(cause.NAME, first.partition(": ")[2], about, evidence, cause.REMEDY, cause.CITATION)
