"""Cases that lost-write and unseen cannot decide: acknowledged sends that may be gone legally, or hidden, and why."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.tables import MAX_INT64
from ..partitions.open_transactions import describe_open_transaction, is_in_leaders_log
from ..partitions.partition import Partition
from ..wording import plural, some_values
from .judgement import MissingSetting, Unknown, missing_isolation_levels
from .send_evidence import with_later_end


def unknown_sends(p: Partition, doubtful: pl.DataFrame) -> Iterator[Unknown | MissingSetting]:
    """Sends that may be lost or not, and why."""
    if p.final and doubtful["hidden_by_open_txn"].any():
        yield from missing_isolation_levels(p, p.final.processes)
    if len(doubtful):
        unread = "the final reads did not return" if p.final else "no read returned"
        yield Unknown(
            f"{unread} {plural(len(doubtful), 'acknowledged record')} of {p.name}"
            f" ({some_values(doubtful['value'].to_list())}), which may be lost or not: {_why_doubtful(p, doubtful)}"
        )


def unknown_ends(p: Partition, not_lost: pl.DataFrame) -> list[MissingSetting]:
    """The isolation levels of clients with an end offset that proves a loss unless it is a last stable offset."""
    ends = p.unsure_ends
    if not len(ends):
        return []
    shrunk = with_later_end(p, ends, not_lost)
    return missing_isolation_levels(p, ends["process"].unique()) if shrunk["later_end"].count() else []


def _why_doubtful(p: Partition, doubtful: pl.DataFrame) -> str:
    them = "it" if len(doubtful) == 1 else "them"
    if doubtful["hidden"].any():
        return f"a poll without a known outcome may have returned {them}"
    if doubtful["maybe_deleted"].any():
        return f"retention or delete-records may have removed {them}"
    if doubtful["maybe_compacted"].any() and "cleanup.policy" not in p.settings.topic(p.topic):
        return f"compaction removes tombstones, and run.json does not set cleanup.policy of {p.topic}"
    if doubtful["maybe_compacted"].any():
        return f"compaction may have removed {them}, if the log has a later record with the same key"
    if doubtful["hidden_by_open_txn"].any():
        hiding = describe_open_transaction(p, p.final.hides if p.final else MAX_INT64)
        return f"{hiding} may hide {them} from the final reads{_held_by_leader(p, doubtful)}"
    return f"the final reads ended before {'it was' if len(doubtful) == 1 else 'they were'} acknowledged"


def _held_by_leader(p: Partition, doubtful: pl.DataFrame) -> str:
    held = int(is_in_leaders_log(p, doubtful).sum())
    return f"; the leader's log holds {'all' if held == len(doubtful) else f'{held:,}'} of them" if held else ""
