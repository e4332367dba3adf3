"""Files of operations, and calls of `logjudge linearize`."""

from __future__ import annotations

from pathlib import Path

from click.testing import Result
from command_line import invoke

DATA = Path(__file__).parent / "data" / "porcupine"


def run(*arguments: str | Path) -> Result:
    """The command, with its exit code as the entry point would give it."""
    return invoke("linearize", *arguments)


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


OK_LINES = (
    '{"process": 1, "type": "invoke", "f": "write", "value": 3}',
    '{"process": 1, "type": "ok", "f": "write", "value": 3}',
    '{"process": 1, "type": "invoke", "f": "read"}',
    '{"process": 1, "type": "ok", "f": "read", "value": 3}',
)
