"""The errors that a user can cause; everything else is our own bug and keeps its traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class LogjudgeError(Exception):
    """One sentence for the user. The command line prints it and exits with 2."""


class InputError(LogjudgeError):
    """An input that cannot be read: where, what was found, what was expected, what to do."""

    def __init__(self, source: str, found: str, expected: str, hint: str = "", line: int | None = None) -> None:
        where = source if line is None else f"{source}:{line}"
        advice = f"; {hint}" if hint else ""
        super().__init__(f"{where}: found {found}, expected {expected}{advice}")


class UsageError(LogjudgeError):
    """Options that do not fit together, or a name that does not exist."""


class MissingComponentError(LogjudgeError):
    """Something that has to be installed first; the sentence says how."""


def meant(found: str, names: Iterable[str]) -> str:
    """The names that are close to a misspelt one, to go on a sentence."""
    close = get_close_matches(found, names, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def first_line(error: Exception) -> str:
    """What an error of somebody else's says, in one line; its kind where it says nothing."""
    java = getattr(error, "java_exception", None)  # py4j's own text names the call alone
    said = str(java.toString() if java is not None else error).strip()
    return (said or type(error).__name__).splitlines()[0][:300]
