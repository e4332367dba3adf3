"""replica-divergence: one offset, different records in two replicas of one snapshot.

A replica that is merely behind is not divergent: only offsets that two replicas hold are compared. The tail
of a leader that died before anybody fetched it differs from what its successor wrote, and Kafka truncates
it when the broker returns; that is a note as long as nothing in it was committed. A record counts as
committed below its replica's checkpointed high watermark (a lower bound, for it lags), or where it was
acknowledged or read by a consumer; above that nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ...histories.tables import Evidence, Finding
from ..partitions.partition import Partition
from ..replicas.replica_logs import Judgement, ReplicaLogs, extents, runs, where
from ..wording import brokers, span
from .evidence import judge_logs
from .rule import Rule


@Rule(
    "replica-divergence",
    summary="Replicas hold different records at one offset",
    breach=(
        "In one snapshot two replicas have records at one offset that differ in leader epoch, key or value, "
        "and the record that the other replaced was committed. Below a checkpointed high watermark it was. "
        "Above it, it was if it was acknowledged under acks=all or read by a consumer."
    ),
    not_a_breach=(
        "A replica that is behind does not diverge. A divergence above the high watermark that the next "
        "election truncates is a note."
    ),
    unknown_when=(
        "Neither a history nor a checkpointed high watermark shows whether the records were committed. "
        "Damaged offsets are not compared."
    ),
    in_jepsen="Not judged: they carry no brokers' files.",
    needs=("batches",),
    assumes=("replicas",),
    follows="offset",
    of_records=True,
).judged_by
def replica_divergence(p: Partition) -> Iterator[Finding]:
    return judge_logs(p, "replica-divergence", judge_divergence)


def judge_divergence(logs: ReplicaLogs, sends: pl.DataFrame) -> Judgement:
    """One finding a snapshot, run of diverging offsets, and grouping of the replicas."""
    out = Judgement()
    bounds = extents(logs)
    for snapshot in logs.snapshots:
        records = logs.records.filter(pl.col("snapshot") == snapshot)
        if records["broker"].n_unique() < 2:
            continue
        for run in runs(diverging(records, identical_at(logs, snapshot)), "position", "key"):
            brokers = run["brokers"][0].to_list()
            sides = _group(brokers, run["sides"][0].split("|"))
            found = _finding(logs, snapshot, records, run, sides, sends, bounds)
            out.findings.append(found)
            marks = _marks(bounds, snapshot)
            if found.severity == "note" and not sends.height and any(marks.get(broker) is None for broker in brokers):
                says = "neither a history nor a checkpointed high watermark tells whether what replicas of"
                out.unknown.append(f"{says} {logs.topic}-{logs.partition} hold differently was committed")
    return out


def identical_at(logs: ReplicaLogs, snapshot: str) -> pl.Series:
    """Where ranges begin that two replicas have alike."""
    return logs.sealed.filter(pl.col("snapshot") == snapshot)["first_offset"].unique().sort()


def diverging(records: pl.DataFrame, sealed: pl.Series) -> pl.DataFrame:
    """One row an offset at which replicas differ: `sides` names for each of its `brokers` the first that
    has the same record, and `position` counts the offsets that two replicas hold (and a sealed range as one).
    """
    what = ["leader_epoch", "timestamp", "control"]
    # A dump of a record with headers has no digest, nor have markers in it.
    what += ["key", "value"] if records["digest"].null_count() else ["digest"]
    # An epoch that the reader does not believe (null in a v2 batch) contradicts nobody's.
    known = pl.col("leader_epoch").fill_null(pl.col("leader_epoch").max().over("offset"))
    identified = records.with_columns(known).select("offset", "broker", pl.struct(what).hash().alias("identity"))
    differ = (
        identified.group_by("offset")
        .agg(pl.len().alias("held"), (pl.col("identity").n_unique() > 1).alias("differ"))
        .filter(pl.col("held") > 1)
        .sort("offset")
        .with_row_index("position")
        .filter("differ")
    )
    before = pl.Series(np.searchsorted(sealed, differ["offset"]), dtype=pl.UInt32)
    differ = differ.with_columns(pl.col("position") + before)
    return (
        identified.join(differ.select("offset", "position"), on="offset")
        .sort("offset", "broker")
        .with_columns(pl.col("broker").first().over("offset", "identity").alias("like"))
        .group_by("offset", "position", maintain_order=True)
        .agg(pl.col("broker").alias("brokers"), pl.col("like").str.join("|").alias("sides"))
        .with_columns(
            pl.col("position").cast(pl.Int64),
            pl.concat_str(pl.col("brokers").list.join(","), pl.lit("/"), "sides").alias("key"),
        )
    )


def _group(brokers: list[str], like: list[str]) -> list[list[str]]:
    sides: dict[str, list[str]] = {}
    for broker, representative in zip(brokers, like, strict=True):
        sides.setdefault(representative, []).append(broker)
    return list(sides.values())


def _finding(
    logs: ReplicaLogs,
    snapshot: str,
    records: pl.DataFrame,
    run: pl.DataFrame,
    sides: list[list[str]],
    sends: pl.DataFrame,
    bounds: pl.DataFrame,
) -> Finding:
    first, last = int(run["offset"][0]), int(run["offset"][-1])
    within = records.filter(pl.col("offset").is_between(first, last))
    winner = winning_side(logs, snapshot, records, first, sides)
    standing = [_standing(within, side, sends) for side in sides]
    # A retry may have written at the same offset what the dead leader had: only one copy was acknowledged.
    elected = _values(within, sides, winner)
    proved = [sends.filter(~pl.col("value").is_in(elected)) for sends in standing]
    marks = _marks(bounds, snapshot)
    committed = [
        any((marks.get(broker) or 0) > first for broker in side) or proved[i].height > 0 for i, side in enumerate(sides)
    ]
    losing = [i for i in range(len(sides)) if i != winner]
    breach = any(committed[i] for i in losing) if winner is not None else sum(committed) > 1
    lost = pl.concat(proved[i] for i in losing)
    names = " and ".join(map(brokers, sides))
    sentence = f"{where(snapshot)} {names} hold different records of {logs.name} at {span(first, last)}"
    if winner is not None:
        sentence += f"; {brokers(sides[winner])} {'has' if len(sides[winner]) == 1 else 'have'} what was elected later"
    if lost.height and winner is not None:
        sentence += f"; {lost.height:,} acknowledged or read values stand only on the losing side"
    elif not breach:
        sentence += "; nothing shows that the records on the losing side were committed"
    return Finding(
        "replica-divergence",
        sentence,
        logs.topic,
        logs.partition,
        severity="violation" if breach else "note",
        first_offset=first,
        last_offset=last,
        count=run.height,
        values=lost["value"].drop_nulls().to_list() if winner is not None else [],
        processes=lost["process"].drop_nulls().unique().sort().to_list() if winner is not None else [],
        evidence=_evidence(within, sides, first, marks, bounds, snapshot),
        replicas=sorted(broker for side in sides for broker in side),
        snapshot=snapshot or None,
    )


def winning_side(
    logs: ReplicaLogs, snapshot: str, records: pl.DataFrame, first: int, sides: list[list[str]]
) -> int | None:
    """Which side was elected later: the greater leader epoch at the first diverging offset; before leader
    epochs, the side that the last leader's log agrees with. None where neither tells.
    """
    at = records.filter(pl.col("offset") == first)
    epochs = [at.filter(pl.col("broker").is_in(side))["leader_epoch"].max() for side in sides]
    known = [e for e in epochs if isinstance(e, int)]
    if len(known) == len(sides) and known.count(max(known)) == 1:
        return known.index(max(known))
    final = logs.records.filter((pl.col("snapshot") == logs.last) & (pl.col("offset") == first))
    if logs.leader is not None:
        final = final.filter(pl.col("broker") == logs.leader)
    digests = final["digest"].unique()
    if len(digests) != 1 or (logs.last == snapshot and logs.leader is None):
        return None
    same = [i for i, side in enumerate(sides) if _digest(at, side) == digests[0]]
    return same[0] if len(same) == 1 else None


def _digest(at: pl.DataFrame, side: list[str]) -> int | None:
    found = at.filter(pl.col("broker") == side[0])["digest"]
    return found[0] if len(found) else None


def _standing(within: pl.DataFrame, side: list[str], sends: pl.DataFrame) -> pl.DataFrame:
    """Sends acknowledged or read whose record stands on this side, at the offset that was acknowledged."""
    proved = sends.filter(pl.col("acknowledged") | pl.col("read").fill_null(False))
    held = within.filter(pl.col("broker") == side[0]).select("offset", "value")
    return proved.join(held, on=["offset", "value"], how="semi").sort("offset")


def _values(within: pl.DataFrame, sides: list[list[str]], winner: int | None) -> list[str]:
    if winner is None:
        return []
    return within.filter(pl.col("broker").is_in(sides[winner]))["value"].drop_nulls().to_list()


def _marks(bounds: pl.DataFrame, snapshot: str) -> dict[str, int | None]:
    at = bounds.filter(pl.col("snapshot") == snapshot)
    return dict(zip(at["broker"], at["high_watermark"], strict=True))


def _evidence(
    within: pl.DataFrame,
    sides: list[list[str]],
    first: int,
    marks: dict[str, int | None],
    bounds: pl.DataFrame,
    snapshot: str,
) -> list[Evidence]:
    out = []
    ends = bounds.filter(pl.col("snapshot") == snapshot)
    for broker in (broker for side in sides for broker in side):
        at = within.filter((pl.col("broker") == broker) & (pl.col("offset") == first)).row(0, named=True)
        end = ends.filter(pl.col("broker") == broker)["end"]
        mark = marks.get(broker)
        has = f"value {at['value']!r}" if at["control"] is None else f"a {at['control']} marker"
        says = f"broker {broker} has at offset {first} {has}"
        says += f", key {at['key']!r}" if at["key"] is not None else ""
        says += f", epoch {at['leader_epoch']}" if at["leader_epoch"] is not None else ""
        says += f", timestamp {at['timestamp']}" if at["timestamp"] is not None else ""
        says += f", digest {at['digest']:016x}" if at["digest"] is not None else ""
        says += f"; its log ends at {end[0]}" if len(end) else ""
        says += f"; its checkpointed high watermark is {mark}" if mark is not None else ""
        out.append(Evidence(says, source=at["file"], byte=at["byte"]))
    prefix = f"the logs agree up to offset {first - 1}" if first > 0 else "the logs agree nowhere before"
    return [*out, Evidence(prefix)]
