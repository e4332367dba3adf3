"""Documents agree with the code: docs/articles.md, the sample lines of docs/format.md, and examples/notebook.ipynb.

docs/articles.md has a row for each of the articles' 94 items, and its modules, scenarios and commands exist.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import nbformat
import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.cli.main import cli
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.scenarios import names
from logjudge.histories.tables import FUNCTIONS
from logjudge.models.replication.options import OPTIONS
from nbclient import NotebookClient

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


PAGE = ROOT / "docs" / "format.md"


def sample_lines() -> list[str]:
    section = PAGE.read_text().split("## Sample lines")[1]
    block = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert block
    return block[1].splitlines()


def test_a_sample_line_of_every_f() -> None:
    assert {json.loads(line)["f"] for line in sample_lines()} == set(FUNCTIONS)


def test_no_sample_line_is_quarantined(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text("\n".join(sample_lines()) + "\n")
    results = judge_run(open_run(history))
    assert results.left_out == 0
    assert results.counts["operations"] == 13


NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def texts(notebook: Any) -> list[str]:
    """The output of each cell, as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output.get("text") or output["data"]["text/plain"] for output in outputs]


@pytest.mark.thorough
def test_the_notebook_shows_what_it_stores() -> None:
    stored = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    run = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(run, timeout=300, kernel_name="python3", resources={"metadata": {"path": NOTEBOOK.parent}}).execute()
    assert len(texts(run)) == 5
    assert texts(run) == texts(stored)  # `jupyter execute --inplace examples/notebook.ipynb` stores new ones
    shown = run.cells[1].outputs[0]["data"]["text/html"]
    assert shown.startswith("<iframe")
    assert "753 acknowledged writes of 2,999 were lost" in shown
