"""Links commits that `__consumer_offsets` lost to the truncation of that log, so that both are one incident."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND
from .chains import decisive_fact

Record = Mapping[str, Any]
LOST_COMMITS = ("commits-lost", "committed-offset-vanished")  # causes of what a group missed or read again


def truncated_commits(truncation: Record, explanation: Record) -> bool:
    """Whether an explained truncation removed the commits of an explanation of lost or vanished commits.

    The log with another commit of the group was truncated by a leader change between the lost commit and the next
    assignment, and the coordinator did not remove the commit.
    """
    if explanation["cause"] not in LOST_COMMITS or truncation["findings"]:
        return False
    lost_at, chain = decisive_fact(truncation["chain"]), explanation["chain"]
    if lost_at is None or any(fact["kind"] == "removed" for fact in chain):
        return False
    logs = {PurePosixPath(fact["source"]).parent.name for fact in chain if fact["byte"] is not None}
    by_clients = [fact for fact in chain if fact["byte"] is None and fact["kind"] in ("committed", "assigned")]
    recorded = [fact["time"] for fact in by_clients if fact["time"] is not None]
    if not recorded or lost_at.get("partition") not in logs:
        return False
    until = max(recorded) if len(recorded) > 1 else MAX_INT64 - SECOND
    return bool(min(recorded) - SECOND <= lost_at["time"] <= until + SECOND)
