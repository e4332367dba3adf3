"""The assumptions of a verdict on brokers' evidence, each with whether it holds."""

from __future__ import annotations

import polars as pl

from ..rules import assuming
from ..wording import brokers, plural, some
from .assumption import Record, assumption

MAX_NAMED = 3  # partitions or brokers in a sentence


def evidence_assumptions(summaries: list[Record], damage: pl.DataFrame) -> list[Record]:
    """The assumptions about partitions with collected logs, and about damage in files that belong to no partition."""
    return [*_of_collected_logs(summaries), *_damage_of_files(damage)]


def _damage_of_files(damage: pl.DataFrame) -> list[Record]:
    serious = damage.filter(~pl.col("kind").is_in(["torn-tail", "zeros"]))
    out = []
    left = serious.filter(kind="left-out")
    if len(left):
        listed = "; ".join(f"{row['source']} {row['reason']}" for row in left.head(MAX_NAMED).iter_rows(named=True))
        sentence = listed + (f" and {len(left) - MAX_NAMED} more (quarantine.jsonl)" if len(left) > MAX_NAMED else "")
        out.append(assumption("one copy of each log", False, sentence, ()))
    broken = serious.filter(pl.col("kind") != "left-out")
    if len(broken):
        files = broken["source"].unique().sort().to_list()
        places = plural(len(broken), "place")
        sentence = f"{places} in {some(files)} could not be read: {broken['reason'][0]} (quarantine.jsonl)"
        out.append(assumption("brokers' common files readable", False, sentence, ()))
    return out


def _of_collected_logs(summaries: list[Record]) -> list[Record]:
    coverage = [(s["label"], s["evidence"]) for s in summaries if s.get("evidence")]
    if not coverage:
        return []
    return [_replicas(coverage), _readable(coverage), *_clocks(coverage), *_resolved_sends(summaries)]


def _replicas(coverage: list[tuple[str, Record]]) -> Record:
    name = "all replicas collected"
    incomplete = [
        f"{part} ({brokers(about['missing']) if about['missing'] else plural(about['lacking'], 'replica')})"
        for part, about in coverage
        if about["missing"] or about["lacking"]
    ]
    if incomplete:
        sentence = f"logs of assigned replicas are missing: {some(incomplete)}; their records cannot be compared"
        return assumption(name, False, sentence, assuming("replicas"))
    single = [part for part, about in coverage if len(about["brokers"]) < 2]
    unassigned = [part for part, about in coverage if part in single and not about["empty"] and not about["assigned"]]
    if unassigned:
        sentence = f"only one replica of {some(unassigned)} was collected, and the number of replicas is not recorded"
        return assumption(name, False, f"{sentence}, so divergence cannot be checked", assuming("replicas"))
    if len(single) == len(coverage):
        empty = any(about.get("empty") for _, about in coverage)
        sentence = "one log has records, the others are empty" if empty else "one log was collected"
        return assumption(
            name, True, f"{sentence} for each partition ({some(single)}): there is nothing to compare", ()
        )
    snapshots = sorted({snapshot for _, about in coverage for snapshot in about["snapshots"]})
    when = [f"in {plural(len(snapshots), 'snapshot')}"] if snapshots else []
    when += ["at the end"] if any(about["at the end"] for _, about in coverage) else []
    compared = plural(len(coverage) - len(single), "partition")
    return assumption(name, True, f"replicas of {compared} were compared {' and '.join(when)}", ())


def _readable(coverage: list[tuple[str, Record]]) -> Record:
    damaged = [part for part, about in coverage if about["damaged"]]
    sentence = "every batch, checkpoint and epoch was read"
    if damaged:
        places = plural(sum(about["damaged"] for _, about in coverage), "place")
        sentence = (
            f"{places} in files of {some(damaged)} could not be read (quarantine.jsonl); offsets there are unknown, and"
            " so are the rules that need them"
        )
    # The assumption holds despite the damage: a log that is copied while it grows has a torn tail, and each rule checks
    # whether the tail may hide its records.
    return assumption("brokers' files readable", True, sentence, ())


def _clocks(coverage: list[tuple[str, Record]]) -> list[Record]:
    clocks = {name: about for _, evidence in coverage for name, about in evidence["clocks"].items()}
    if not clocks:
        return []
    conflicts = [clock["description"] for clock in clocks.values() if clock["doubtful"]]
    if conflicts:
        return [assumption("brokers' clocks fit the history", False, "; ".join(conflicts[:MAX_NAMED]), ())]
    unbounded = sorted(name for name, clock in clocks.items() if not clock["bounded"] and not clock["ahead"])
    shifted = [clock["description"] for clock in clocks.values() if clock["ahead"]]
    sentences = [f"clocks were corrected: {'; '.join(shifted[:MAX_NAMED])}"] if shifted else []
    bounded = sorted(set(clocks) - set(unbounded))
    if bounded and not shifted:
        sentences.append(f"the faults of the history agree with the logs of {brokers(bounded)}")
    if unbounded:
        sentences.append(f"no event bounds the clock of {brokers(unbounded)}, so it is taken as UTC")
    return [assumption("brokers' clocks fit the history", True, "; ".join(sentences), ())]


def _resolved_sends(summaries: list[Record]) -> list[Record]:
    resolved = sum(summary["counts"]["resolved"] for summary in summaries)
    if not resolved:
        return []
    sends = f"{plural(resolved, 'send')} without a recorded outcome or offset"
    return [assumption("leaders' logs authoritative", True, f"{sends} are in the leader's log: judged as written", ())]
