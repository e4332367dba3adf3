"""The assumptions that a verdict on brokers' evidence rests on, each with whether it holds."""

from __future__ import annotations

from typing import Any

import polars as pl

from .rules import assuming
from .wording import brokers, plural, some

MOST = 3  # partitions or brokers named in a sentence

Record = dict[str, Any]


def evidence_assumptions(summaries: list[Record], damage: pl.DataFrame) -> list[Record]:
    """Of the partitions whose logs brokers kept, and of damage in files of no partition; none where they kept none."""
    return [*_of_partitions(summaries), *_of_files(damage)]


def _of_files(damage: pl.DataFrame) -> list[Record]:
    grave = damage.filter(~pl.col("kind").is_in(["torn-tail", "zeros"]))
    out = []
    left = grave.filter(pl.col("kind") == "left-out")
    if len(left):
        said = "; ".join(f"{row['source']} {row['reason']}" for row in left.head(MOST).iter_rows(named=True))
        says = said + (f" and {len(left) - MOST} more (quarantine.jsonl)" if len(left) > MOST else "")
        out.append(assumption("one copy of each log", False, says, ()))
    broken = grave.filter(pl.col("kind") != "left-out")
    if len(broken):
        files = broken["source"].unique().sort().to_list()
        places = plural(len(broken), "place")
        says = f"{places} in {some(files)} could not be read (quarantine.jsonl)"
        out.append(assumption("brokers' common files readable", False, says, ()))
    return out


def _of_partitions(summaries: list[Record]) -> list[Record]:
    told = [(s["label"], s["evidence"]) for s in summaries if s.get("evidence")]
    if not told:
        return []
    return [_replicas(told), _readable(told), *_clocks(told), *_settled(summaries)]


def _replicas(told: list[tuple[str, Record]]) -> Record:
    name = "logs of all replicas kept"
    lacking = [
        f"{part} ({brokers(about['missing']) if about['missing'] else plural(about['lacking'], 'replica')})"
        for part, about in told
        if about["missing"] or about["lacking"]
    ]
    if lacking:
        says = f"logs of assigned replicas are missing of {some(lacking)}: what they held cannot be compared"
        return assumption(name, False, says, assuming("replicas"))
    alone = [part for part, about in told if len(about["brokers"]) < 2]
    untold = [part for part, about in told if part in alone and not about["empty"] and not about["assigned"]]
    if untold:
        says = f"one log is kept of {some(untold)}, and nobody says how many replicas there are"
        return assumption(name, False, f"{says}: whether they agree is not known", assuming("replicas"))
    if len(alone) == len(told):
        empty = any(about.get("empty") for _, about in told)
        only = "holds records" if empty else "is kept"
        says = f"one log a partition {only} ({some(alone)}){', the others are empty' if empty else ''}"
        return assumption(name, True, f"{says}: there is nothing to compare", ())
    snapshots = sorted({snapshot for _, about in told for snapshot in about["snapshots"]})
    when = [f"in {plural(len(snapshots), 'snapshot')}"] if snapshots else []
    when += ["at the end"] if any(about["at the end"] for _, about in told) else []
    return assumption(
        name, True, f"replicas of {plural(len(told) - len(alone), 'partition')} were compared {' and '.join(when)}", ()
    )


def _readable(told: list[tuple[str, Record]]) -> Record:
    damaged = [(part, about["damaged"]) for part, about in told if about["damaged"]]
    if not damaged:
        return assumption("brokers' files readable", True, "every batch, checkpoint and epoch was read", ())
    places = sum(count for _, count in damaged)
    says = (
        f"{plural(places, 'place')} in files of {some([part for part, _ in damaged])} could not be"
        " read (quarantine.jsonl); the offsets there count as unknown, and rules that need them say so"
    )
    # A torn tail is what a log looks like that is copied while it grows: rules judge what it may hide.
    return assumption("brokers' files readable", True, says, ())


def _clocks(told: list[tuple[str, Record]]) -> list[Record]:
    clocks = {name: about for _, evidence in told for name, about in evidence["clocks"].items()}
    if not clocks:
        return []
    doubtful = [clock["says"] for clock in clocks.values() if clock["doubtful"]]
    if doubtful:
        return [assumption("brokers' clocks fit the history", False, "; ".join(doubtful[:MOST]), ())]
    unbounded = sorted(name for name, clock in clocks.items() if not clock["bounded"] and not clock["ahead"])
    shifted = [clock["says"] for clock in clocks.values() if clock["ahead"]]
    said = [f"clocks were corrected: {'; '.join(shifted[:MOST])}"] if shifted else []
    bounded = sorted(set(clocks) - set(unbounded))
    if bounded and not shifted:
        said.append(f"the faults of the history agree with the logs of {brokers(bounded)}")
    if unbounded:
        said.append(f"nothing bounds the clock of {brokers(unbounded)}, taken as it is (UTC)")
    return [assumption("brokers' clocks fit the history", True, "; ".join(said), ())]


def _settled(summaries: list[Record]) -> list[Record]:
    settled = sum(summary["counts"]["settled"] for summary in summaries)
    if not settled:
        return []
    says = f"{settled} sends whose outcome or offset nobody learned stand in the leader's log and count as written"
    return [assumption("leaders' logs tell the truth", True, says, ())]


def assumption(name: str, holds: bool, says: str, touches: tuple[str, ...]) -> Record:
    """As verdict.json has it; what it touches are the rules that need it."""
    return {"name": name, "holds": holds, "says": says, "touches": list(touches)}
