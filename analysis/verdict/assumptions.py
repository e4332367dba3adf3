"""The assumptions of a verdict, and what a run's evidence shows about them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import polars as pl

from ...models.internal_topics import is_internal
from ..rules import RULES, rules_assuming
from ..rules.rule import BROKER_COUNTS
from ..wording import brokers, plural, some

Record = dict[str, Any]


def assumption(name: str, holds: bool, sentence: str, touches: tuple[str, ...]) -> Record:
    """One assumption as a record of verdict.json. `sentence` is its text, `touches` are the rules that need it."""
    return {"name": name, "holds": holds, "says": sentence, "touches": list(touches)}


def unless_counted(count: int, name: str, sentence: str, otherwise: str, touches: tuple[str, ...]) -> Record:
    """An assumption that holds with this sentence if nothing was counted against it."""
    return assumption(name, not count, otherwise if count else sentence, touches)


def naming_unknown_rules(item: Record, unknown: Collection[str]) -> Record:
    """The assumption, with the rules in its sentence that it leaves unknown if it does not hold."""
    left = [rule for rule in item["touches"] if rule in unknown]
    if item["holds"] is True or not left:
        return item
    return {**item, "says": f"{item['says']}; this leaves {some(left)} unknown"}


def broken_assumptions(report: Record) -> list[Record]:
    """The assumptions of a verdict that do not hold."""
    return [item for item in report["assumptions"] if item["holds"] is not True]


MAX_NAMED = 3  # partitions or brokers in a sentence


def evidence_assumptions(
    summaries: list[Record], damage: pl.DataFrame, has_clients: bool, has_start: bool
) -> Iterator[Record]:
    """The assumptions about partitions with collected logs, and about damage in files that belong to no partition.

    `has_start`: whether the start of the run is recorded.
    """
    collected = [summary for summary in summaries if summary.get("evidence")]
    coverage = [(summary["label"], summary["evidence"]) for summary in collected]
    if coverage:
        needed = [(summary["label"], summary["evidence"]) for summary in collected if _needs_replicas(summary)]
        yield _replicas(needed or coverage, _partitions_without_log(summaries), summaries)
        yield _readable(coverage)
        yield from _clocks(coverage, has_clients, has_start)
        yield from _resolved_sends(summaries)
    serious = damage.filter(~pl.col("kind").is_in(["torn-tail", "zeros", "leftover"]))
    if len(beside := damage.filter(kind="leftover")):
        yield assumption("leftover folders set aside", True, _places(beside, " "), ())
    if len(left := serious.filter(kind="left-out")):
        more = " (quarantine.jsonl)" if len(left) > MAX_NAMED else ""
        yield assumption("one copy of each log", False, _places(left) + more, ())
    if len(broken := serious.filter(pl.col("kind") != "left-out")):
        first = broken.unique("source", keep="first", maintain_order=True).sort("source")
        sentence = f"{plural(len(broken), 'place')} could not be read (quarantine.jsonl): {_places(first)}"
        yield assumption("brokers' common files readable", False, sentence, ())


def _places(damage: pl.DataFrame, separator: str = ": ") -> str:
    """The first files with damage and its reasons, and how many more there are."""
    return some([separator.join(row) for row in damage.select("source", "reason").rows()], MAX_NAMED, "; ")


def _needs_replicas(summary: Record) -> bool:
    """Whether all replicas of a collected partition are needed: of internal topics only if clients used them.

    Collections often have only some of these, or none, which says nothing about the clients' records. What a file of
    them proves to be missing counts.
    """
    about, is_used = summary["evidence"], not is_internal(summary["topic"]) or summary["counts"]["records"]
    return bool(is_used or about["why missing"] or about["incomplete"])


def _partitions_without_log(summaries: list[Record]) -> list[str]:
    """Partitions that clients used and that have no collected log, though another one of their topic has."""
    collected = {summary["topic"] for summary in summaries if summary.get("evidence")}
    return [
        summary["label"]
        for summary in summaries
        if not summary.get("evidence")
        and summary["topic"] in collected
        and summary["counts"]["records"]
        and not (summary["topic_generation"] or {}).get("deleted")
    ]


def _replicas(coverage: list[tuple[str, Record]], without_log: list[str], summaries: list[Record]) -> Record:
    name = "all replicas collected"
    partly = [f"{part}: {one}" for part, about in coverage for one in about["incomplete"]]
    incomplete = dict.fromkeys(without_log, "every replica") | {
        part: brokers(about["missing"]) if about["missing"] else plural(about["lacking"], "replica")
        for part, about in coverage
        if about["missing"] or about["lacking"]
    }
    if incomplete:
        reasons = [f"{part}: {why}" for part, about in coverage for why in about["why missing"]] + partly
        why = f" ({some(reasons, separator='; ')})" if reasons else ""
        missing = some([f"{part} ({which})" for part, which in incomplete.items()])
        sentence = f"logs of assigned replicas are missing: {missing}{why}; their records cannot be compared"
        return assumption(name, False, sentence, _rules_of_replicas(summaries, incomplete))
    if partly:
        # Each rule reports where these logs could change its answer.
        return assumption(name, False, f"logs are incomplete: {some(partly, separator='; ')}", ())
    if unassigned := [part for part, about in coverage if about["brokers"] and not about["assigned"]]:
        sentence = (
            f"the number of replicas of {some(unassigned)} is not recorded, so one may be missing and differ:"
            " set replication.factor in run.json, or add the brokers' logs"
        )
        return assumption(name, False, sentence, rules_assuming("replicas"))
    single = [(part, about) for part, about in coverage if len(about["brokers"]) < 2]
    if len(single) == len(coverage):
        sentence = "one log was collected"
        if any(about["empty"] for _, about in coverage):
            has_records = any(about["brokers"] for _, about in coverage)
            sentence = "one log has records, the others are empty" if has_records else "all logs are empty"
        where = f"for each partition ({some([part for part, _ in single])})"
        return assumption(name, True, f"{sentence} {where}: there is nothing to compare", ())
    snapshots = sorted({snapshot for _, about in coverage for snapshot in about["snapshots"]})
    when = [f"in {plural(len(snapshots), 'snapshot')}"] if snapshots else []
    when += ["at the end"] if any(about["at the end"] for _, about in coverage) else []
    compared = plural(len(coverage) - len(single), "partition")
    return assumption(name, True, f"replicas of {compared} were compared {' and '.join(when)}", ())


def _rules_of_replicas(summaries: list[Record], incomplete: Collection[str]) -> tuple[str, ...]:
    """The rules that compare replicas and have something to judge in one of these partitions.

    Clients have no acknowledged record in an internal topic: its missing logs do not matter to acknowledged-absent.
    """
    counts = [summary["counts"] for summary in summaries if summary["label"] in incomplete]
    needs = {rule: set(RULES[rule].needs) - BROKER_COUNTS for rule in rules_assuming("replicas")}
    return tuple(rule for rule, of_clients in needs.items() if any(all(map(each.get, of_clients)) for each in counts))


def _readable(coverage: list[tuple[str, Record]]) -> Record:
    damaged = [part for part, about in coverage if about["damaged"]]
    if not damaged:
        return assumption("brokers' files readable", True, "every batch, checkpoint and epoch was read", ())
    # It holds despite the damage: a log that is copied while it grows has a torn tail, and each rule checks whether the
    # tail may hide its records.
    places = plural(sum(about["damaged"] for _, about in coverage), "place")
    sentence = f"{places} in files of {some(damaged)} could not be read (quarantine.jsonl); only rules that need them"
    return assumption("damage in brokers' files bounded", True, f"{sentence} are unknown", ())


def _clocks(coverage: list[tuple[str, Record]], has_clients: bool, has_start: bool) -> Iterator[Record]:
    # The records of one partition may bound a clock, and those of another not.
    found = [item for _, evidence in coverage for item in evidence["clocks"].items()]
    clocks = dict(sorted(found, key=lambda item: (item[1]["doubtful"], item[1]["ahead"] != 0)))
    unbounded = sorted(broker for broker, clock in clocks.items() if not clock["bounded"] and not clock["ahead"])
    if clocks and not has_clients and len(unbounded) == len(clocks):
        sentence = f"there is no history with which the clocks of {brokers(sorted(clocks))} can be compared,"
        sentence += " so their times are taken as UTC, and those of another time zone are shown wrong"
        yield assumption("brokers' clocks are UTC", True, sentence, ())
        return
    if clocks and not has_start:
        sentence = "run.json does not set started_at, so the brokers' times cannot be compared with the history's"
        yield assumption("causes use no doubtful clock", True, sentence, ())
        return
    name = "brokers' clocks fit the history" if has_clients else "brokers' clocks fit the metadata log"
    if doubtful := [clock for clock in clocks.values() if clock["doubtful"]]:
        sentence = "; ".join(clock["description"] for clock in doubtful[:MAX_NAMED])
        by_records = all(clock["by_records"] for clock in doubtful)
        yield assumption("causes use no doubtful clock" if by_records else name, by_records, sentence, ())
        return
    bounded = sorted(clocks.keys() - set(unbounded))
    shifted = [clock["description"] for clock in clocks.values() if clock["ahead"]]
    sentences = [f"clocks were corrected: {'; '.join(shifted[:MAX_NAMED])}"] if shifted else []
    if bounded and not shifted:
        sentences.append(f"the faults of the history agree with the logs of {brokers(bounded)}")
    if unbounded:
        sentences.append(f"no event bounds the clock of {brokers(unbounded)}, so it is taken as UTC")
    if clocks:
        yield assumption(name, True, "; ".join(sentences), ())


def _resolved_sends(summaries: list[Record]) -> Iterator[Record]:
    if resolved := sum(summary["counts"]["resolved"] for summary in summaries):
        sends = f"{plural(resolved, 'send')} without a recorded outcome or offset"
        sentence = f"{sends} are in the leader's log: judged as written"
        yield assumption("leaders' logs authoritative", True, sentence, ())


# The number of units in a second, for clocks that count from 1970.
EPOCHS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6}
YEAR_2000, YEAR_2100 = 946_684_800, 4_102_444_800  # s since 1970
# No client gets a response over a network sooner: a round trip within a host takes about 50,000 ns.
MIN_ROUND_TRIP_NS = 20_000
# Times since the start may have a coarser unit. No client completes this many operations in so short a time.
MIN_OPERATIONS = 100
MIN_NS_PER_OPERATION = 50
MIN_LATENCY_NS = 1_000


def doubtful_unit(span: Sequence[int] | None, latencies: Sequence[int | None], operations: int) -> str:
    """The reason why the times of a run cannot be nanoseconds, as a sentence; empty if they can be.

    `span` is the first and last time of the run, `latencies` the lower quartile of latencies (ns) of each partition.
    The value of a clock alone proves nothing, because a monotonic clock may begin anywhere. So the latencies must fit
    the unit, too.
    """
    known = [latency for latency in latencies if latency is not None]
    if span is None or not known or span[0] == span[1]:
        return ""
    first, last = span
    took = max(known)
    for unit, per_second in EPOCHS.items():
        since_1970 = first >= YEAR_2000 * per_second and last <= YEAR_2100 * per_second
        if since_1970 and took < MIN_ROUND_TRIP_NS:
            return (
                f"times begin at {first:,}, a date in {unit} since 1970, and operations took {took:,} {unit};"
                " expected nanoseconds since the start of the run"
            )
    is_too_dense = operations >= MIN_OPERATIONS and last - first < operations * MIN_NS_PER_OPERATION
    if is_too_dense and took < MIN_LATENCY_NS:
        return (
            f"{operations:,} operations in {last - first:,} ns are more than clients can do;"
            " expected times in nanoseconds since the start of the run"
        )
    return ""


def short_latency(latencies: Sequence[int | None]) -> str:
    """A note if operations were faster than a network, as they are in microseconds since the start; else empty.

    A log within the client's process can be as fast, so this alone breaks no assumption. `latencies` as above.
    """
    took = max((latency for latency in latencies if latency is not None), default=MIN_ROUND_TRIP_NS)
    if not 0 <= took < MIN_ROUND_TRIP_NS:  # negative: completed before being invoked, which is reported by itself
        return ""
    fast = f"operations took {took:,} ns, less than a round trip within a host"
    return f"{fast}: if the log is not in the clients' own process, times may not be in nanoseconds"
