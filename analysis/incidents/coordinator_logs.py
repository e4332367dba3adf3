"""Links commits that `__consumer_offsets` lost to the truncation of that log, so that both are one incident."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND
from .chains import decisive_fact

Record = Mapping[str, Any]


def truncated_commits(truncation: Record, explanation: Record) -> bool:
    """Whether an explained truncation removed the commits of an explanation of commits-lost.

    The log with the older commit of the group was truncated by a leader change between the lost commit and the next
    assignment.
    """
    lost_at = decisive_fact(truncation["chain"])
    if explanation["cause"] != "commits-lost" or truncation["findings"] or lost_at is None:
        return False
    chain = explanation["chain"]
    logs = {PurePosixPath(fact["source"]).parent.name for fact in chain if fact["byte"] is not None}
    recorded = [fact["time"] for fact in chain if fact["byte"] is None and fact["time"] is not None]  # by clients
    if not recorded or lost_at.get("partition") not in logs:
        return False
    until = max(recorded) if len(recorded) > 1 else MAX_INT64 - SECOND
    return bool(min(recorded) - SECOND <= lost_at["time"] <= until + SECOND)
