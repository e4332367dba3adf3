"""Options and arguments that commands share: paths, settings, names, formats, and the form of the output."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any, Literal

import click
from click.shell_completion import CompletionItem

from ..histories.errors import UsageError, did_you_mean
from ..histories.files import is_uri, local_path
from ..histories.readers import LOG, readers_of
from .document import Document
from .progress import silenced


def complete_names(names: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """A `shell_complete` for names separated by commas; it calls `names` only when the shell completes."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        earlier, comma, prefix = incomplete.rpartition(",")
        return [CompletionItem(earlier + comma + name) for name in names() if name.startswith(prefix)]

    return complete


def setting(option: str, text: str, expected: str = "NAME=VALUE") -> tuple[str, str]:
    """The name and the value of a setting. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"found {option} {text}, expected {expected}")
    return name, value


def settings_of(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """The settings by name. If a name is repeated, the last value counts."""
    return dict(setting(option, text) for text in texts)


class Choice(click.Choice[str]):
    """One of some words; the error for another word names the close ones."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if not (close := did_you_mean(str(value), self.choices)):
                raise
            raise click.BadParameter(error.message.rstrip(".") + close, ctx, param) from error


STDIN = "-"
_SCRATCH_PREFIX = "logjudge-stdin-"
_SCRATCH = re.compile(r"\S*/logjudge-stdin-[^/]+/(stdin)")


class AnyPath(click.Path):
    """A path or a URI, as text; - is standard input. It is checked when it is opened."""

    def __init__(self, takes_stdin: bool = False, path_type: type[Path | str] = str) -> None:
        super().__init__(readable=False, path_type=path_type)
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

    def __init__(self, takes_stdin: bool = False, path_type: type[Path | str] = Path) -> None:
        super().__init__(takes_stdin, path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and is_uri(value):
            raise UsageError(f"found {value}, expected a local or mounted path")
        if isinstance(value, str) and value.startswith("file:"):
            value = str(local_path(value))
        return super().convert(value, param, ctx)


class NewFile(LocalPath):
    """A file to write, in a folder that exists. Its ending is one of `endings`. Raises UsageError for another path."""

    def __init__(self, *endings: str) -> None:
        super().__init__()
        self.endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path: Path = super().convert(value, param, ctx)
        given = f"{param.opts[0]} {path}" if param else str(path)
        if path.suffix not in self.endings:
            raise UsageError(f"{given}: expected a file that ends in {' or '.join(self.endings)}")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{given}: no such folder {path.absolute().parent}")
        return path


def _saved_stdin(ctx: click.Context) -> Path:
    """Saves standard input to a file, as a run is read more than once; the command removes it when it ends."""
    folder = ctx.with_resource(tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX))
    file = Path(folder) / "stdin"
    with file.open("wb") as opened:
        shutil.copyfileobj(sys.stdin.buffer, opened)
    return file


def without_scratch(text: str) -> str:
    """A message with `stdin` in place of the path of its copy."""
    return _SCRATCH.sub(r"\1", text)


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
    names = Choice(readers_of(*contents))
    return click.option("--from", "reader", type=names, help="Format of the history [default: detected].")


from_option = from_formats(LOG)


def write_text(option: str, file: Path, text: str) -> None:
    """Writes the file that an option names. Raises UsageError."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option}{file}: cannot write ({error.strerror})") from error


def show(document: Document, form: Form) -> None:
    """Prints a document as Markdown or for the terminal."""
    click.echo(document.markdown() if form == "markdown" else document.terminal())
