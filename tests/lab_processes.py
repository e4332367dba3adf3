"""The processes of a lab, to show that none outlives it."""

from __future__ import annotations

from pathlib import Path

from logjudge.histories.recording.lab.handle import command_lines


def processes(folder: str | Path) -> list[int]:
    """The processes whose command line names a folder."""
    return [pid for pid, arguments in command_lines().items() if any(str(folder) in one for one in arguments)]
