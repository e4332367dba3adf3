"""Paths on the command line."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from ..histories.errors import UsageError
from ..histories.files import is_uri, local_path

STDIN = "-"
_SCRATCH_PREFIX = "logjudge-stdin-"
_SCRATCH = re.compile(r"\S*/logjudge-stdin-[^/]+/(stdin)\.txt")


class AnyPath(click.Path):
    """A path or a URI, as text; - is standard input. It is checked when it is opened."""

    def __init__(self, readable: bool = False, path_type: type[Path | str] = str, takes_stdin: bool = False) -> None:
        super().__init__(readable=readable, path_type=path_type)
        self.takes_stdin = takes_stdin

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":  # an unset variable in a script would mean the current folder
            name = param.get_error_hint(None) if param else "a path"
            raise UsageError(f"{name}: found an empty path, expected a file or a folder")
        if value == STDIN and self.takes_stdin and ctx is not None and not ctx.resilient_parsing:
            value = str(_saved_stdin(ctx))
        return super().convert(value, param, ctx)


class LocalPath(AnyPath):
    """A path for commands without Spark; file:// is accepted. Raises UsageError for any other URI."""

    def __init__(self, readable: bool = True, path_type: type[Path | str] = Path, takes_stdin: bool = False) -> None:
        super().__init__(readable, path_type, takes_stdin)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and is_uri(value):
            raise UsageError(f"found {value}, expected a local or mounted path; only `logjudge check` reads URIs")
        if isinstance(value, str) and value.startswith("file:"):
            value = str(local_path(value))
        return super().convert(value, param, ctx)


def _saved_stdin(ctx: click.Context) -> Path:
    """Saves standard input to a file, as a run is read more than once; the command removes it when it ends."""
    folder = ctx.with_resource(tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX))
    file = Path(folder) / "stdin.txt"  # .txt allows the text of kafka-dump-log, too
    with file.open("wb") as opened:
        shutil.copyfileobj(sys.stdin.buffer, opened)
    return file


def without_scratch(text: str) -> str:
    """A message with `stdin` in place of the path of its copy."""
    return _SCRATCH.sub(r"\1", text)
