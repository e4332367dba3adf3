"""The processes of a lab, to show that none outlives it."""

from __future__ import annotations

import subprocess
from pathlib import Path


def processes(folder: str | Path) -> list[int]:
    """The processes whose command line names a folder, without this one."""
    listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()]
    return [int(pid) for pid, stat, args in rows if str(folder) in args and not stat.startswith("Z")]
