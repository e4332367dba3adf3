"""Paths on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..histories.errors import UsageError
from ..histories.files import is_uri, local_path


class AnyPath(click.Path):
    """A path or a URI, as text. Whether it can be read is checked where it is opened."""

    def __init__(self) -> None:
        super().__init__(readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        _refuse_empty(value, param)
        return super().convert(value, param, ctx)


class LocalPath(click.Path):
    """A path for commands without Spark; file:// is one, too. Raises UsageError for any other URI."""

    def __init__(self, readable: bool = True, path_type: type[Path | str] = Path) -> None:
        super().__init__(readable=readable, path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        _refuse_empty(value, param)
        if isinstance(value, str) and is_uri(value):
            raise UsageError(f"found {value}, expected a local or mounted path; only `logjudge check` reads URIs")
        if isinstance(value, str) and value.startswith("file:"):
            value = str(local_path(value))
        return super().convert(value, param, ctx)


def _refuse_empty(value: Any, param: click.Parameter | None) -> None:
    """An empty path is a variable of a script that is not set; it would be the current folder. Raises UsageError."""
    if value == "":
        name = param.get_error_hint(None) if param else "a path"
        raise UsageError(f"{name}: found an empty path, expected a file or a folder")
