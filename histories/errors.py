"""The errors that a user can cause. Any other error is a bug of logjudge and keeps its traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from json import JSONDecodeError

NO_SUCH_FILE = "no such file or folder"
NO_PERMISSION = "no permission to read it"
PERMISSIONS = "change its permissions (`ls -ld` shows them), or run logjudge as a user who has them"


class LogjudgeError(Exception):
    """One sentence for the user. The command line prints it and exits with 2."""


class InputError(LogjudgeError):
    """An input that cannot be read. `hint` says what to do.

    `found` may be NO_SUCH_FILE, for which a hint is enough, or NO_PERMISSION, which has a hint of its own.
    """

    def __init__(self, source: str, found: str, expected: str, hint: str = "", line: int | None = None) -> None:
        if found == NO_PERMISSION:
            hint = PERMISSIONS
        where = source if line is None else f"{source}:{line}"
        advice = f"; {hint}" if hint else ""
        is_of_path = found in (NO_SUCH_FILE, NO_PERMISSION)
        problem = found if is_of_path else f"found {found}"
        wanted = "" if is_of_path and hint else f", expected {expected}"
        super().__init__(f"{where}: {problem}{wanted}{advice}")
        self.line, self.fields = line, (found, expected, hint)


class UsageError(LogjudgeError):
    """Options that do not fit together, or a name that does not exist."""


class MissingComponentError(LogjudgeError):
    """A component is not installed or does not respond; the sentence says what to do."""


class ClusterError(LogjudgeError):
    """A cluster or a store failed or takes too long; the sentence says what to do."""


def close_names(found: str, names: Iterable[str]) -> list[str]:
    """The names that a misspelt or abbreviated one may mean, such as min.insync.replicas for min.isr."""
    similar = get_close_matches(found, known := list(names), cutoff=0.5)
    misspelt = get_close_matches(found, known)
    return [name for name in similar if name in misspelt or _abbreviates(found, name)]


def _abbreviates(short: str, name: str) -> bool:
    rest = iter(name)
    return all(char in rest for char in short)


def did_you_mean(found: str, names: Iterable[str]) -> str:
    """The end of a sentence that suggests the names close to a misspelt one; empty if none is close."""
    close = close_names(found, names)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def unknown_name(what: str, found: object, names: Iterable[str], listing: str = "") -> UsageError:
    """The error for a name that does not exist: the close ones, then the command that lists all, else all names."""
    known = list(names)
    others = f"{listing} lists all" if listing else f"expected one of {', '.join(known)}"
    hint = did_you_mean(str(found).strip("'"), known) or (";" if listing else ",")
    return UsageError(f"there is no {what} {found}{hint} {others}")


def shortened(text: str, max_chars: int = 60) -> str:
    """The beginning of a text from an input, for a sentence."""
    return text if len(text) <= max_chars else text[:max_chars] + "…"


def no_json(error: Exception) -> str:
    """What a text is that json cannot read."""
    if isinstance(error, RecursionError):
        return "JSON that is nested too deeply"
    if isinstance(error, JSONDecodeError):
        return f"no JSON ({error.msg} at line {error.lineno}, column {error.colno})"
    return f"{error}"


def describe_error(error: Exception) -> str:
    """The first line of a library's error; the name of its class where it has no text."""
    java = getattr(error, "java_exception", None)  # py4j's own text names only the call
    text = str(java.toString() if java is not None else error).strip()
    return (text or type(error).__name__).splitlines()[0][:300]
