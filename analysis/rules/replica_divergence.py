"""replica-divergence: replicas hold the same record at each offset.

Only offsets that two replicas hold are compared, so a replica that is behind does not diverge. If a leader dies before
a follower fetched its last records, its successor writes others, and Kafka truncates the first when the old leader
returns. That is a note unless such a record was committed. A record is known to be committed below its replica's
checkpointed high watermark, which lags, or if it was acknowledged, or read by a consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.references import kip
from ...histories.tables import MAX_INT64, Evidence, Finding
from ..extremes import greatest
from ..replicas.missing_logs import MissingLog
from ..replicas.replica_logs import ReplicaLogs, in_snapshot, runs
from ..wording import brokers, quoted, span
from .rule import Result, Rule, Unknown, finding


@Rule(
    "replica-divergence",
    group="replicas",
    summary="Replicas hold different records at one offset",
    source=kip(101),
    needs=("batches",),
    assumes=("replicas",),
    follows="offset",
    values_are_records=True,
    explained_as="divergence",
).judged_by_logs
def replica_divergence(logs: ReplicaLogs, sends: pl.DataFrame) -> Iterator[Result]:
    """One finding for each snapshot, run of diverging offsets, and grouping of the replicas.

    Breach: In one snapshot two replicas have records at one offset that differ in leader epoch, key or value, and the
    record that the other replaced was committed: it is below a checkpointed high watermark, was acknowledged under
    acks=all, or was read by a consumer.
    Not a breach: A replica that is behind does not diverge. The last log of a broker that a reassignment has removed
    does not count. A divergence above the high watermark that the next election truncates is a note.
    Unknown when: Neither a history nor a checkpointed high watermark shows whether the records were committed. The log
    of a replica is missing or cannot be read, wholly or in part, where another one has records. Only run.json has the
    assignment, and another broker has the partition, so that a reassignment may have removed a broker that differs.
    Damaged offsets are not compared.
    """
    for snapshot in logs.snapshots:
        bounds = logs.extents.filter(snapshot=snapshot)
        marks = dict(bounds.select("broker", "high_watermark").iter_rows())
        for run in divergences(logs, snapshot):
            divergence = _divergence(logs, snapshot, run, sends, marks)
            if snapshot == FINAL and logs.moved_to:
                yield Unknown(_perhaps_removed(logs, divergence))
                continue
            yield _finding(logs, divergence, bounds)
            lacks_marks = any(marks.get(name) is None for name in divergence.brokers)
            if divergence.is_uncommitted and not sends.height and lacks_marks:
                yield Unknown(
                    f"replicas of {logs.name} differ, and neither a history nor a checkpointed high watermark shows"
                    " whether the records were committed"
                )
        for one in _not_compared(logs, snapshot):
            yield Unknown(f"{one.description}, so not all replicas of {logs.name} can be compared")


def _perhaps_removed(logs: ReplicaLogs, divergence: Divergence) -> str:
    """The clause that a broker whose last log differs may be no replica any more."""
    assigned, others = brokers(logs.replicas), brokers(sorted(logs.moved_to))
    where = f"the last logs of {logs.name} differ at {span(divergence.first, divergence.last)}"
    return (
        f"{where}, but run.json assigns it to {assigned}, and now {others} has it: a reassignment may have removed one"
    )


def _not_compared(logs: ReplicaLogs, snapshot: str) -> Iterator[MissingLog]:
    """The missing logs of a snapshot at whose offsets another replica has, or may have, records."""
    missing = [one for one in logs.missing if one.snapshot == snapshot]
    bounds = logs.extents.filter(pl.col("end") > pl.col("start"), snapshot=snapshot) if missing else logs.extents
    for one in missing:
        others = bounds.filter(pl.col("broker") != one.broker).select("start", pl.col("end") - 1).rows()
        others += [(other.first, MAX_INT64) for other in missing if other.broker != one.broker]
        if any(one.concerns(first, last) for first, last in others):
            yield one


def divergences(logs: ReplicaLogs, snapshot: str) -> Iterator[pl.DataFrame]:
    """The rows of `logs.diverging` of a snapshot, as runs of adjacent offsets at which the same replicas differ."""
    return runs(logs.diverging.filter(pl.col("snapshot") == snapshot), "position", "key")


class Divergence(NamedTuple):
    """A run of adjacent offsets of one snapshot at which the same replicas differ in the same way."""

    snapshot: str
    first: int
    last: int
    offsets: int  # the number of diverging offsets
    sides: list[list[str]]  # brokers with the same records
    winner: int | None  # the side that was elected later, if known
    records: pl.DataFrame  # of all replicas, from first to last
    is_uncommitted: bool  # no record of a losing side is known to be committed
    lost: pl.DataFrame  # the sends that are known to be committed, and are not on the winning side
    values: pl.Series  # of these sends; without sends, of all records on a losing side, by offset

    @property
    def brokers(self) -> list[str]:
        """The brokers of all sides."""
        return [broker for side in self.sides for broker in side]


def _divergence(
    logs: ReplicaLogs, snapshot: str, run: pl.DataFrame, sends: pl.DataFrame, marks: dict[str, int | None]
) -> Divergence:
    first, last = int(run["offset"][0]), int(run["offset"][-1])
    sides = _sides(run["brokers"][0].to_list(), run["sides"][0].split("|"))
    within = logs.records.filter(pl.col("offset").is_between(first, last), snapshot=snapshot)
    winner = _winning_side(logs, snapshot, within, first, sides)
    # A retry may have written the dead leader's record again at the same offset: only one copy was acknowledged.
    of_winner = pl.col("broker").is_in([] if winner is None else sides[winner])
    elected = within.filter(of_winner)["value"].drop_nulls().implode()
    proved = [_known_committed(within, side, sends).filter(~pl.col("value").is_in(elected)) for side in sides]
    committed = [
        any((marks.get(broker) or 0) > first for broker in side) or own.height > 0
        for side, own in zip(sides, proved, strict=True)
    ]
    losing = [number for number in range(len(sides)) if number != winner]
    is_breach = any(committed[number] for number in losing) if winner is not None else sum(committed) > 1
    lost = pl.concat(proved[number] for number in losing)
    replaced = within.filter(
        pl.col("broker").is_in([sides[number][0] for number in losing]), pl.col("control").is_null()
    )
    values = (lost if len(sends) else replaced.sort("offset", "broker"))["value"].drop_nulls()
    return Divergence(snapshot, first, last, run.height, sides, winner, within, not is_breach, lost, values)


def _sides(names: list[str], like: list[str]) -> list[list[str]]:
    """The brokers in groups: `like` names for each the representative of its group."""
    sides: dict[str, list[str]] = {}
    for broker, representative in zip(names, like, strict=True):
        sides.setdefault(representative, []).append(broker)
    return list(sides.values())


def _winning_side(
    logs: ReplicaLogs, snapshot: str, within: pl.DataFrame, first: int, sides: list[list[str]]
) -> int | None:
    """The side that was elected later: the one with the greatest leader epoch among the diverging records.

    The first of them may be older: a disk restored from a copy leads again behind what the copy holds.
    Without leader epochs, the side that agrees with the last leader's log. None if neither is known.
    """
    epochs = [greatest(within.filter(pl.col("broker").is_in(side))["leader_epoch"], None) for side in sides]
    known = [epoch for epoch in epochs if epoch is not None]
    if len(known) == len(sides) and known.count(max(known)) == 1:
        return known.index(max(known))
    if logs.last == snapshot and logs.leader is None:
        return None
    of_leader = pl.lit(True) if logs.leader is None else pl.col("broker") == logs.leader
    digests = logs.last_records.filter(of_leader, offset=first)["digest"].unique()
    alike = {*within.filter(pl.col("digest").is_in(digests.implode()), offset=first)["broker"]}
    same = [number for number, side in enumerate(sides) if side[0] in alike]
    return same[0] if len(digests) == len(same) == 1 else None


def _known_committed(within: pl.DataFrame, side: list[str], sends: pl.DataFrame) -> pl.DataFrame:
    """Sends that were acknowledged or read, and are on this side at the acknowledged offset."""
    proved = sends.filter(pl.col("acknowledged") | pl.col("read").fill_null(False))
    held = within.filter(broker=side[0]).select("offset", "value")
    return proved.join(held, on=["offset", "value"], how="semi").sort("offset")


def _finding(logs: ReplicaLogs, divergence: Divergence, bounds: pl.DataFrame) -> Finding:
    snapshot, sides, winner, lost = divergence.snapshot, divergence.sides, divergence.winner, divergence.lost
    first, last = divergence.first, divergence.last
    names = " and ".join(map(brokers, sides))
    sentence = f"{in_snapshot(snapshot)} {names} hold different records of {logs.name} at {span(first, last)}"
    if _differ_in_epochs_only(divergence.records):
        sentence += " (the same keys, values and timestamps, in different leader epochs)"
    if winner is not None:
        have = "has" if len(sides[winner]) == 1 else "have"
        sentence += f"; {brokers(sides[winner])} {have} those of the later leader"
    if lost.height and winner is not None:
        sentence += f"; {lost.height:,} acknowledged or read values are only on the losing side"
    elif divergence.is_uncommitted:
        sentence += "; nothing shows that the records on the losing side were committed"
    return finding(
        logs,
        sentence,
        (first, last),
        _evidence(divergence, bounds),
        count=divergence.offsets,
        severity="note" if divergence.is_uncommitted else "violation",
        values=divergence.values if winner is not None else (),
        processes=lost["process"].drop_nulls().unique().sort() if winner is not None else (),
        brokers=sorted(divergence.brokers),
        snapshot=snapshot,
    )


def _differ_in_epochs_only(records: pl.DataFrame) -> bool:
    """Whether all replicas hold the same data at each offset: a producer's retry wrote it to a later leader."""
    data = pl.struct("key", "value", "timestamp", "control")
    return bool((records.select(data.n_unique().over("offset")).to_series() == 1).all())


def _evidence(divergence: Divergence, bounds: pl.DataFrame) -> Iterator[Evidence]:
    """The record of each replica at the first diverging offset, and the last offset at which all agree."""
    first = divergence.first
    for broker in divergence.brokers:
        here = (pl.col("broker") == broker) & (pl.col("offset") == first)
        record = divergence.records.filter(here).row(0, named=True)
        what = f"value {quoted(record['value'])}" if record["control"] is None else f"a {record['control']} marker"
        description = f"broker {broker} has at offset {first} {what}"
        description += f", key {quoted(record['key'])}" if record["key"] is not None else ""
        description += f", epoch {record['leader_epoch']}" if record["leader_epoch"] is not None else ""
        description += f", timestamp {record['timestamp']}" if record["timestamp"] is not None else ""
        description += f", digest {record['digest']:016x}" if record["digest"] is not None else ""
        for end, mark in bounds.filter(broker=broker).select("end", "high_watermark").iter_rows():
            description += f"; its log ends at {end}"
            description += f"; its checkpointed high watermark is {mark}" if mark is not None else ""
        yield Evidence.in_file(description, record)
    yield Evidence(f"the logs agree up to offset {first - 1}" if first > 0 else "the logs differ from the first offset")
