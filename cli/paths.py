"""Paths on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..histories.errors import UsageError
from ..histories.files import is_uri, local_path


class LocalPath(click.Path):
    """A path for what does not ask Spark; file:// is one too. Raises UsageError for any other URI."""

    def __init__(self, readable: bool = True, path_type: type[Path | str] = Path) -> None:
        super().__init__(readable=readable, path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and is_uri(value):
            raise UsageError(f"found {value}, expected a local or mounted path; only `logjudge check` takes URIs")
        if isinstance(value, str) and value.startswith("file:"):
            value = str(local_path(value))
        return super().convert(value, param, ctx)
