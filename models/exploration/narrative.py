"""The narrative of a finished run in numbered sentences, for a scenario's page and the result of a search."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from ..replication.cluster import Cluster
from ..replication.events import ClusterEvent
from ..replication.ledger import Breach, offsets
from ..replication.scenario import Scenario
from .invariants import LOSS_INVARIANTS, breaches
from .trace import SEND, Step, TraceEvent, Tracer
from .truth import adjacent_losses, losses
from .wording import NODE_SENTENCES, PARTITION_SENTENCES, load_sentence, step_sentence

Line = tuple[int, str, bool]  # time, sentence, whether it must not be omitted
MAX_BREACHES = 2  # of one invariant, and producers whose values each concerns


def narrate_scenario(scenario: Scenario) -> tuple[list[str], Cluster]:
    """Run a scenario and narrate it, with the breaches of the invariants that it names."""
    events: list[ClusterEvent] = []
    tracer = Tracer()
    cluster = scenario.run(tracer, events.append, prepare=tracer.attach)
    found = [breach for some in breaches(cluster, scenario.breaks).values() for breach in some]
    return narrate(cluster, events, tracer, found), cluster


def narrate(
    cluster: Cluster, events: list[ClusterEvent], tracer: Tracer, breaches: list[Breach], limit: int = 60
) -> list[str]:
    """A finished run in order of time: events, faults, losses, and the history of the records of each breach.

    At most `limit` lines, unless more than half of that must not be omitted.
    """
    lines = _client_lines(tracer, cluster.config.partitions)
    single = cluster.config.logs == 1
    for time, node, kind, details in events:
        wording = PARTITION_SENTENCES.get(kind) or NODE_SENTENCES.get(kind)
        sentence = wording(node, *details) if wording is not None else ""
        if sentence and (time > 0 or kind != "start"):
            if not single and kind in PARTITION_SENTENCES:
                partition = details[0] if isinstance(details[0], int) else details[0].partition
                sentence = f"{_where(cluster, partition)}{sentence}"
            lines.append((time, sentence, False))
    lines += _loss_lines(cluster)
    lines += _breach_lines(cluster, tracer, breaches)
    lines.sort(key=itemgetter(0))
    merged = [next(same) for _, same in groupby(lines, key=itemgetter(1))]
    return [f"{number}. {line}" for number, line in enumerate(_shorten(merged, limit), 1)]


def _client_lines(tracer: Tracer, partitions: int) -> list[Line]:
    """The load of the producers, which send to the first `partitions`, and the events of all clients."""
    times = [event.time for event in tracer.events if event.step.action == SEND and event.partition < partitions]
    lines = [(time, sentence, True) for time, sentence in tracer.sentences]
    if times:
        acknowledged = sum(tracer.acknowledged[partition] for partition in range(partitions))
        lines.insert(0, (times[0], load_sentence(times, acknowledged, tracer.retried), True))
    return lines


def _shorten(lines: list[Line], limit: int) -> list[str]:
    """The lines as text. If there are too many, the middle ones of those that may be omitted are."""
    spare = [number for number, line in enumerate(lines) if not line[2]]
    room = max(limit // 2, limit - (len(lines) - len(spare)))
    out = set(spare[room // 2 : len(spare) - (room - room // 2)]) if len(lines) > limit else set()
    texts: list[str] = []
    skipped = 0
    for number, (time, sentence, _) in enumerate(lines):
        if number in out:
            skipped += 1
            continue
        if skipped:
            texts.append(f"({skipped} events omitted)")
        skipped = 0
        texts.append(f"{time / 1_000_000:.3f} s: {sentence}")
    return texts


def _breach_lines(cluster: Cluster, tracer: Tracer, breaches: list[Breach]) -> list[Line]:
    """The first breaches of each invariant, and the steps of the values that they concern."""
    lines: list[Line] = []
    concerned: list[Values] = []
    for name in dict.fromkeys(breach.invariant for breach in breaches):
        found = list({breach.text: breach for breach in reversed(breaches) if breach.invariant == name}.values())[::-1]
        for number, breach in enumerate(found[:MAX_BREACHES], 1):
            left = len(found) - number if number == MAX_BREACHES else 0
            more = f" (and {left} more)" if left else ""
            where = _where(cluster, breach.partition)
            lines.append((breach.time, f"{where}{name} is broken: {breach.text}{more}", True))
            for one in (*_values(cluster, breach)[:MAX_BREACHES], *_overtaking_values(cluster, breach)):
                if not any(one.overlaps(other) for other in concerned):
                    concerned.append(one)
    for one in concerned:
        lines += _step_lines(tracer, one, _where(cluster, one.partition))
    return lines


def _where(cluster: Cluster, partition: int) -> str:
    return f"[{cluster.config.log_name(partition)}] " if cluster.config.logs > 1 else ""


@dataclass(frozen=True, slots=True)
class Values:
    """Values `first` up to `end` of a producer."""

    partition: int
    producer: int
    first: int
    end: int

    def overlaps(self, other: Values | TraceEvent) -> bool:
        """Whether the other concerns one of these values."""
        same = self.partition == other.partition and self.producer == other.producer
        return same and other.first < self.end and self.first < other.end


def _values(cluster: Cluster, breach: Breach) -> list[Values]:
    """By producer, the values that are or were at a breach's offsets in any log.

    For a loss only the truncated values, if there are any, because others may have taken their place.
    """
    partition = breach.partition
    logs = list(cluster.logs_of(partition).values())
    cut = [batch for truncation in cluster.ledger.truncations[partition] for batch in truncation.batches]
    held = [batch for log in logs for batch in log.batches()] if breach.base >= 0 else []
    for batches in (cut, held) if breach.invariant in LOSS_INVARIANTS else ((*held, *cut),):
        found: dict[int, Values] = {}
        for batch in batches:
            low, high = max(batch.base, breach.base), min(batch.end, breach.end)
            if low < high:
                low, high = low + batch.first - batch.base, high + batch.first - batch.base
                known = found.get(batch.producer)
                if known is not None:
                    low, high = min(low, known.first), max(high, known.end)
                found[batch.producer] = Values(partition, batch.producer, low, high)
        if found:
            return [found[producer] for producer in sorted(found)]
    return []


def _overtaking_values(cluster: Cluster, breach: Breach) -> list[Values]:
    """For a reordering: the producer's first values that precede the late ones, though they were sent later."""
    log = cluster.leader_log(breach.partition) if breach.invariant == "no-reordering" else None
    late = log.at(breach.base) if log is not None else None
    if log is None or late is None:
        return []
    for batch in log.batches():
        if batch.base < late.base and batch.producer == late.producer and batch.first > late.first:
            return [Values(breach.partition, batch.producer, batch.first, batch.values_end)]
    return []


def _step_lines(tracer: Tracer, one: Values, where: str) -> list[Line]:
    """One line for each step of these values, at the time of its first event."""
    groups: dict[Step, list[TraceEvent]] = {}
    for event in tracer.events:
        if one.overlaps(event):
            groups.setdefault(event.step, []).append(event)
    lines: list[Line] = []
    for step, events in groups.items():
        first, end = max(one.first, min(e.first for e in events)), min(one.end, max(e.end for e in events))
        text = step_sentence(step, one.producer, first, end)
        known = [event for event in events if event.base >= 0]
        if known:
            starts = min(e.base + max(0, one.first - e.first) for e in known)
            text += f" ({offsets(starts, max(e.base + min(e.end, one.end) - e.first for e in known))})"
        until = f", until {events[-1].time / 1_000_000:.3f} s" if events[-1].time > events[0].time else ""
        lines.append((events[0].time, f"{where}{text}{until}", True))
    return lines


def _loss_lines(cluster: Cluster) -> list[Line]:
    """One line for each run of adjacent offsets that were acknowledged and lost, at its first acknowledgement."""
    lines: list[Line] = []
    for run in adjacent_losses(losses(cluster), lambda _: None):
        base, end = run[0].ack.base, run[-1].ack.end
        times = [one.ack.time for one in run]
        where = f" of {cluster.config.log_name(run[0].partition)}" if cluster.config.data_partitions > 1 else ""
        what = f"{offsets(base, end)}{where} {'is' if end == base + 1 else 'are'}"
        until = f" until {max(times) / 1_000_000:.3f} s" if max(times) > min(times) else ""
        lines.append((min(times), f"{what} acknowledged{until} (and will be lost)", True))
    return lines
