"""What the shell completes where a name is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem


def completed(names: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """`shell_complete` of what takes names, several with commas. They are asked for when the shell asks."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        earlier, comma, begun = incomplete.rpartition(",")
        return [CompletionItem(earlier + comma + name) for name in names() if name.startswith(begun)]

    return complete
