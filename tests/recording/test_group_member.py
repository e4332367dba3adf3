"""The process of a consumer group's member."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

# A member that never leaves its group, as without brokers, and may take a second to end.
STUCK = """
import time
from logjudge.histories.recording.workloads import group_member
group_member.MAX_SECONDS_TO_END = 1
group_member.GroupMember.run = lambda _: time.sleep(600)
group_member.main()
"""


def test_a_member_ends_if_its_recorder_dies_and_it_cannot_leave(tmp_path: Path) -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    plan = {"name": "m1", "topic": "t", "handle_ms": 0, "start": time.time_ns(), "config": config}
    plan["file"] = str(tmp_path / "m1.jsonl")
    # The end of the input is what a recorder leaves that was killed.
    done = subprocess.run(
        [sys.executable, "-c", STUCK], input=json.dumps(plan) + "\n", text=True, timeout=60, check=False
    )
    assert done.returncode == 1
