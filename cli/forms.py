"""The forms in which `explain`, `diff` and `timeline` print: a document for the terminal, Markdown, or JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

import click

from ..histories.errors import UsageError
from ..histories.readers import LOG, readers_of
from .document import Document

Form = Literal["terminal", "markdown", "json"]
Command = Callable[..., Any]


def form_options(of_json: str) -> Callable[[Command], Command]:
    """--json, of which `of_json` is the help, and --markdown; the command gets one `form`."""

    def decorate(command: Command) -> Command:
        @click.option("--json", "as_json", is_flag=True, help=of_json)
        @click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
        @wraps(command)
        def with_form(as_json: bool, as_markdown: bool, **options: Any) -> Any:
            if as_json and as_markdown:
                raise UsageError("found --json and --markdown, expected one of them, as both print to stdout")
            form: Form = "json" if as_json else "markdown" if as_markdown else "terminal"
            return command(**options, form=form)

        return with_form

    return decorate


from_option = click.option(
    "--from", "reader", type=click.Choice(readers_of(LOG)), help="Format of the history; recognised by default."
)


def show(document: Document, form: Form) -> None:
    click.echo(document.markdown() if form == "markdown" else document.terminal())
