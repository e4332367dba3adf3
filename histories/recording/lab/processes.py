"""The command lines of all processes, from /proc; `ps`, which small Linux systems lack, elsewhere."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

PROC = Path("/proc")


def command_lines() -> dict[int, list[str]]:
    """The arguments of each process that runs, by pid. One that has ended, but was not waited for, is left out."""
    if not (PROC / "self" / "cmdline").exists():
        return _listed_by_ps()
    found = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                arguments = (folder / "cmdline").read_text(errors="replace").split("\0")[:-1]
                if arguments:
                    found[int(folder.name)] = arguments
    return found


def _listed_by_ps() -> dict[int, list[str]]:
    command = ["ps", "-A", "-ww", "-o", "pid=,stat=,args="]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {int(pid): arguments for pid, stat, *arguments in rows if arguments and not stat.startswith("Z")}
