"""Events of a recorded run, and functions that judge changed copies of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from command_line import invoke
from logjudge.histories.errors import LogjudgeError

EXAMPLE = Path(__file__).parents[1] / "examples" / "unclean-election" / "history.jsonl.gz"
EVENTS: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(EXAMPLE.read_bytes()).splitlines()[:400]]


def lines(events: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def check(path: Path, out: Path, *options: str) -> int:
    """The exit code; anything but one sentence about the input is a failure of the test."""
    arguments = ["check", str(path), "--engine", "local", "--out", str(out), *options]
    result = invoke(*arguments)
    if isinstance(result.exception, LogjudgeError):
        assert "\n" not in str(result.exception)
        assert not out.exists()
        return 2
    if result.exception:
        raise result.exception
    assert isinstance(result.return_value, int)
    return result.return_value
