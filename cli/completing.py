"""Shell completion of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem


def completed(names: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """A `shell_complete` for names separated by commas; it calls `names` only when the shell completes."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        earlier, comma, prefix = incomplete.rpartition(",")
        return [CompletionItem(earlier + comma + name) for name in names() if name.startswith(prefix)]

    return complete
