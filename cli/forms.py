"""The output forms of `explain`, `diff` and `timeline`: a document for the terminal, Markdown, or JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from typing import Any, Literal

import click

from ..histories.errors import UsageError
from ..histories.readers import LOG, readers_of
from .document import Document
from .progress import silenced

Form = Literal["terminal", "markdown", "json"]
Command = Callable[..., Any]


def form_options(json_help: str) -> Callable[[Command], Command]:
    """The options --json and --markdown; the command gets them as one argument `form`."""

    def decorate(command: Command) -> Command:
        @click.option("--json", "as_json", is_flag=True, help=json_help)
        @click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
        @wraps(command)
        def with_form(as_json: bool, as_markdown: bool, **options: Any) -> Any:
            if as_json and as_markdown:
                raise UsageError("found --json and --markdown, expected one of them: both print to stdout")
            form: Form = "json" if as_json else "markdown" if as_markdown else "terminal"
            return command(**options, form=form)

        return with_form

    return decorate


def quiet_option(command: Command) -> Command:
    """The option --quiet, for commands whose exit code or written file is the result. JSON is still printed."""

    @click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
    @wraps(command)
    def with_quiet(quiet: bool, **options: Any) -> Any:
        if not quiet:
            return command(**options)
        with silenced():
            if options.get("as_json") or options.get("form") == "json":
                return command(**options)
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # noqa: PTH123
                return command(**options)

    return with_quiet


def from_formats(*contents: str) -> Callable[[Command], Command]:
    """The option --from, with the formats of such histories."""
    names = click.Choice(readers_of(*contents))
    return click.option("--from", "reader", type=names, help="Format of the history [default: detected].")


from_option = from_formats(LOG)


def show(document: Document, form: Form) -> None:
    """Prints a document as Markdown or for the terminal."""
    click.echo(document.markdown() if form == "markdown" else document.terminal())
