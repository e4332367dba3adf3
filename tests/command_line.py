"""Calls of the command line, and the runs that several modules judge."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.cli.main import cli
from logjudge.histories.bundle import open_run
from notation import undrawn

ROOT = Path(__file__).parents[1]
LOSSY = ROOT / "examples" / "unclean-election"
CLEAN = ROOT / "tests" / "data" / "real" / "clean-a"
# A history without final reads: whether the acknowledged value is still there is unknown.
UNREAD = """{"process":"p","op":0,"type":"invoke","f":"send","topic":"x","partition":0,"value":"a","time":1}
{"process":"p","op":0,"type":"ok","f":"send","topic":"x","partition":0,"offset":0,"value":"a","time":2}
"""


def thinned(folder: Path) -> Path:
    """The run with every thirteenth operation of its history."""
    history = next(folder.glob("history.jsonl*"))
    opened = gzip.open if history.suffix == ".gz" else open
    with opened(history, "rt") as lines:
        parsed = [(json.loads(line), line) for line in lines]
    with opened(history, "wt") as out:
        out.writelines(line for event, line in parsed if event["f"] in ("fault", "heal") or event["op"] % 13 == 0)
    return folder


def invoke(*arguments: object, stdin: bytes | None = None) -> Result:
    """Calls the command in this process; errors that end it are in `exception`."""
    words = [str(argument) for argument in arguments]
    result = CliRunner().invoke(cli, words, standalone_mode=False, input=stdin)
    if isinstance(result.return_value, int):
        result.exit_code = result.return_value
    return result


def verdict_of_run(path: Path, *rules: str) -> dict[str, Any]:
    """The verdict of the local engine on a run; `rules`: those to judge, all by default. Nothing is drawn."""
    with undrawn():
        return verdict_of(judge_run(open_run(path).with_settings(rules=rules)))


def check(*arguments: object) -> Result:
    return invoke("check", "--engine", "local", "--no-plots", *arguments)


def verdict_in(folder: Path) -> dict[str, Any]:
    """The verdict that `logjudge check` wrote."""
    return dict(json.loads((folder / "verdict.json").read_text()))


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def shell(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "logjudge.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
