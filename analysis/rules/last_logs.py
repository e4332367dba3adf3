"""The brokers' logs in the latest snapshot, and the acknowledged sends that they must have and lack."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ..replicas.replica_logs import ReplicaLogs


class LastLogs(NamedTuple):
    """The logs of the last snapshot, and the leader if its log is among them."""

    logs: ReplicaLogs
    bounds: pl.DataFrame  # rows of `extents`
    leader: str | None

    @staticmethod
    def of(logs: ReplicaLogs) -> LastLogs:
        """The last logs of the replicas."""
        is_missing = pl.col("broker").is_in(list(logs.missing_brokers))
        bounds = logs.extents.filter(~is_missing, snapshot=logs.last)
        return LastLogs(logs, bounds, logs.leader if logs.leader in set(bounds["broker"]) else None)

    @property
    def may_lack_replica(self) -> bool:
        """Whether a replica may have a log that was not collected."""
        replicas = set(self.logs.replicas)
        return not replicas or bool(replicas - set(self.bounds["broker"]))

    @property
    def may_lack_leader(self) -> bool:
        """Whether the leader's log may be one that was not collected."""
        return self.leader is None and self.may_lack_replica

    def judged(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of the leader's log, or of all logs if that is not known."""
        return rows if self.leader is None else rows.filter(broker=self.leader)


def expected_sends(last: LastLogs, acked: pl.DataFrame) -> pl.DataFrame:
    """The acknowledged sends that the logs of the last snapshot must hold, as far as time shows."""
    copied = last.logs.copied_at
    if copied is not None:
        return acked.filter(pl.col("completed") < copied)
    return acked if last.logs.at_rest else acked.filter(~_is_maybe_later(last))


def maybe_later(last: LastLogs, acked: pl.DataFrame) -> pl.DataFrame:
    """The acknowledged sends that may be missing because the copy is older, in a topic that was not deleted."""
    if last.logs.newer_than is None:
        return acked.clear()
    return absent_sends(last, acked.filter(_is_maybe_later(last)))


def _is_maybe_later(last: LastLogs) -> pl.Expr:
    """Whether a send may have been written after the copy, which was made while brokers ran.

    Its record is behind the end of the copied logs, they hold nothing newer than its acknowledgement, and no earlier
    snapshot has it.
    """
    since = last.logs.newer_than
    if since is None:
        return (pl.col("offset") >= last.bounds["end"].max()).fill_null(True)
    is_behind = (pl.col("offset") >= last.judged(last.bounds)["end"].max()).fill_null(True)
    earlier = last.logs.records.filter(pl.col("snapshot") != last.logs.last)["value"].drop_nulls()
    return is_behind & (pl.col("completed") >= since) & ~pl.col("value").is_in(earlier.implode()).fill_null(False)


def absent_sends(last: LastLogs, acked: pl.DataFrame) -> pl.DataFrame:
    """The sends that no log holds (`everywhere`), and those that the leader's log does not hold."""
    held = last.logs.last_records.filter(pl.col("control").is_null()).select("offset", "value", "broker")
    absent = without_record(acked, last.judged(held))
    is_everywhere = pl.col("send").is_in(without_record(absent, held)["send"].implode())
    return absent.with_columns(everywhere=is_everywhere).sort("offset", "send", nulls_last=True)


def without_record(acked: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """The sends without their record in `held`: identified by value at any offset, a tombstone by its offset."""
    if not acked["value"].null_count():
        return acked.join(held, on="value", how="anti")
    values = acked.filter(pl.col("value").is_not_null()).join(held, on="value", how="anti")
    tombstones = acked.filter(pl.col("value").is_null() & pl.col("offset").is_not_null())
    gone = tombstones.join(held.filter(pl.col("value").is_null()), on="offset", how="anti")
    return pl.concat([values, gone])
