"""docs/articles.md has a row for each of the articles' 94 items, and its modules, scenarios and commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from logjudge.cli.main import cli
from logjudge.histories.simulation.scenarios import names
from logjudge.models.replication.options import OPTIONS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "articles.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| \d.*$", TEXT, re.MULTILINE)]
STATES = ("works", "simplified", "left out")


def test_each_item_has_a_row_with_its_state() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 95))
    assert all(len(row) == 6 and row[1] and row[2].startswith(STATES) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_modules_scenarios_and_the_command_of_a_row_exist(row: list[str], tmp_path: Path) -> None:
    _, _, state, modules, scenarios, command = row
    for module in re.findall("`([^`]+)`", modules):
        assert (ROOT / module).is_file() or (ROOT / "models" / "replication" / module).is_file()
    assert {*filter(None, scenarios.split(", "))} <= {*names()}
    if command:
        _parse(command.strip("`").replace("RUN", str(tmp_path)))
    assert (modules and command) or not state.startswith("works")


def _parse(text: str) -> None:
    """Parse a command as the shell would pass it, without running it. Raises UsageError."""
    program, *arguments = shlex.split(text)
    assert program == "logjudge"
    group: click.Command = cli
    context = click.Context(cli)
    while isinstance(group, click.Group) and arguments and (found := group.get_command(context, arguments[0])):
        group, arguments = found, arguments[1:]
    assert not isinstance(group, click.Group) or group.invoke_without_command
    with group.make_context(text, arguments, parent=context) as parsed:
        for setting in parsed.params.get("settings", ()):
            name, _, _ = setting.partition("=")
            assert name in OPTIONS


def test_a_wrong_command_is_found() -> None:
    with pytest.raises(click.UsageError):
        _parse("logjudge simulate --colour red")
