"""A run told in sentences, one numbered line an event: what a scenario's page and a search's find say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .cluster import Cluster
from .deeds import Deed, Witness
from .ledger import Breach, offsets
from .state import Fact, Followed, Led, PartitionState, Shrunk, Truncated, arguments
from .truth import lost, neighbours

Line = tuple[int, str, bool]  # time, sentence, is it told whatever else is left out
LOSSES = ("no-acknowledged-loss", "no-committed-loss")
MOST_BREACHES = 2  # of one invariant, and producers whose values each is about


def tell(cluster: Cluster, facts: list[Fact], witness: Witness, breaches: list[Breach], limit: int = 60) -> list[str]:
    """The story of a finished run, in order of time: its facts, its faults, what was lost, and what became of the
    records that each breach is about."""
    lines: list[Line] = [(time, sentence, True) for time, sentence in witness.told()]
    single = cluster.config.partitions == 1
    for time, node, kind, details in facts:
        say = _SAY.get(kind)
        if say is None:
            continue
        sentence = say(node, *arguments(kind, details))
        if sentence and (time > 0 or kind != "start"):
            if not single and isinstance(details[0] if details else None, int) and kind in _OF_PARTITION:
                sentence = f"{_where(cluster, details[0])}{sentence}"
            lines.append((time, sentence, False))
    lines += _lost(cluster)
    lines += _broken(cluster, witness, breaches)
    lines.sort(key=lambda line: line[0])
    return [f"{number}. {line}" for number, line in enumerate(_shortened(_merge(lines), limit), 1)]


def _shortened(lines: list[Line], limit: int) -> list[str]:
    """Without the middle of what may be left out, if there are too many lines."""
    spare = [number for number, line in enumerate(lines) if not line[2]]
    room = max(limit // 2, limit - (len(lines) - len(spare)))
    out = set(spare[room // 2 : len(spare) - (room - room // 2)]) if len(lines) > limit else set()
    told: list[str] = []
    skipped = 0
    for number, (time, sentence, _) in enumerate(lines):
        if number in out:
            skipped += 1
            continue
        if skipped:
            told.append(f"({skipped} events left out)")
        skipped = 0
        told.append(f"{time / 1_000_000:.3f} s: {sentence}")
    return told


def _broken(cluster: Cluster, witness: Witness, breaches: list[Breach]) -> list[Line]:
    """The first breaches of each invariant, and what was done with the values that they are about."""
    lines: list[Line] = []
    about: list[Values] = []
    for name in dict.fromkeys(breach.invariant for breach in breaches):
        found = list({breach.text: breach for breach in reversed(breaches) if breach.invariant == name}.values())[::-1]
        for number, breach in enumerate(found[:MOST_BREACHES], 1):
            left = len(found) - number if number == MOST_BREACHES else 0
            more = f" (and {left} more)" if left else ""
            where = _where(cluster, breach.partition)
            lines.append((breach.time, f"{where}{name} is broken: {breach.text}{more}", True))
            for one in (*_values(cluster, breach)[:MOST_BREACHES], *_overtaking(cluster, breach)):
                if not any(one.overlaps(other) for other in about):
                    about.append(one)
    for one in about:
        lines += _deeds(witness, one, _where(cluster, one.partition))
    return lines


def _where(cluster: Cluster, partition: int) -> str:
    return f"[{cluster.config.topic}-{partition}] " if cluster.config.partitions > 1 else ""


@dataclass(frozen=True, slots=True)
class Values:
    """Values `low` up to `high` of a producer."""

    partition: int
    producer: int
    low: int
    high: int

    def overlaps(self, other: Values | Deed) -> bool:
        low, high = (other.low, other.high) if isinstance(other, Values) else (other.first, other.end)
        same = self.partition == other.partition and self.producer == other.producer
        return same and low < self.high and self.low < high


def _values(cluster: Cluster, breach: Breach) -> list[Values]:
    """By producer, the values that stand at a breach's offsets in any log, or stood there. What was lost is what was
    cut, if anything was: others may stand in its place."""
    partition = breach.partition
    logs = list(cluster.logs_of(partition).values())
    cut = [batch for removal in cluster.ledger.removals[partition] for batch in removal.batches]
    held = [batch for log in logs for batch in log.batches()] if breach.base >= 0 else []
    for batches in (cut, held) if breach.invariant in LOSSES else ((*held, *cut),):
        found: dict[int, Values] = {}
        for batch in batches:
            low, high = max(batch.base, breach.base), min(batch.end, breach.end)
            if low < high:
                low, high = low + batch.first - batch.base, high + batch.first - batch.base
                known = found.get(batch.producer)
                if known is not None:
                    low, high = min(low, known.low), max(high, known.high)
                found[batch.producer] = Values(partition, batch.producer, low, high)
        if found:
            return [found[producer] for producer in sorted(found)]
    return []


def _overtaking(cluster: Cluster, breach: Breach) -> list[Values]:
    """Of a reordering: the first later values of the same producer that stand before those that came late."""
    log = cluster.leader_log(breach.partition) if breach.invariant == "no-reordering" else None
    late = log.at(breach.base) if log is not None else None
    if log is None or late is None:
        return []
    for batch in log.batches():
        if batch.base < late.base and batch.producer == late.producer and batch.first > late.first:
            return [Values(breach.partition, batch.producer, batch.first, batch.first + batch.end - batch.base)]
    return []


def _deeds(witness: Witness, one: Values, where: str) -> list[Line]:
    """One line for all that somebody did alike with these values, when it was first done."""
    groups: dict[str, list[Deed]] = {}
    for deed in witness.deeds:
        if one.overlaps(deed):
            groups.setdefault(deed.does, []).append(deed)
    lines: list[Line] = []
    for does, deeds in groups.items():
        first, end = max(one.low, min(d.first for d in deeds)), min(one.high, max(d.end for d in deeds))
        whose = "its" if does.startswith(f"p{one.producer} ") else f"p{one.producer}'s"
        text = does.format(f"{whose} value {first}" if end == first + 1 else f"{whose} values {first} to {end - 1}")
        known = [d for d in deeds if d.base >= 0]
        if known:
            starts = min(d.base + max(0, one.low - d.first) for d in known)
            text += f" ({offsets(starts, max(d.base + min(d.end, one.high) - d.first for d in known))})"
        until = f", until {deeds[-1].time / 1_000_000:.3f} s" if deeds[-1].time > deeds[0].time else ""
        lines.append((deeds[0].time, f"{where}{text}{until}", True))
    return lines


def _lost(cluster: Cluster) -> list[Line]:
    """One line for each run of neighbouring offsets that were acknowledged and lost, at its first
    acknowledgement."""
    lines: list[Line] = []
    for run in neighbours(lost(cluster), lambda _: None):
        base, end = run[0].ack.base, run[-1].ack.end
        times = [one.ack.time for one in run]
        where = f" of {cluster.config.topic}-{run[0].partition}" if cluster.config.partitions > 1 else ""
        what = f"{offsets(base, end)}{where} {'is' if end == base + 1 else 'are'}"
        until = f" until {max(times) / 1_000_000:.3f} s" if max(times) > min(times) else ""
        lines.append((min(times), f"{what} acknowledged{until}, and will be lost", True))
    return lines


def _merge(lines: list[Line]) -> list[Line]:
    """Without repetitions of one sentence in a row."""
    return [line for index, line in enumerate(lines) if index == 0 or line[1] != lines[index - 1][1]]


_STOPS = {
    "crash": "dies (its page cache survives)",
    "power-loss": "loses power",
    "shutdown": "shuts down in order",
    "disk-full": "halts: its disk is full",
}
_WHY = {
    "high-watermark": "its high watermark",
    "epoch": "the answer for its last leader epoch",
    "out-of-range": "the leader's log end, as it fetched beyond it",
    "unclean-disk": "what its disk had kept",
}


def _list(nodes: tuple[int, ...]) -> str:
    return "{" + ", ".join(str(node) for node in nodes) + "}"


def _loaded(node: int, partition: int, end: int, mark: int, clean: bool) -> str:  # noqa: ARG001
    return f"broker {node} loads its log: end {end}, checkpointed high watermark {mark}"


def _leader(node: int, led: Led) -> str:
    how = ", elected uncleanly" if led.unclean else ""
    return (
        f"broker {node} leads epoch {led.epoch} from offset {led.end}, high watermark {led.mark},"
        f" ISR {_list(led.isr)}{how}"
    )


def _follower(node: int, followed: Followed) -> str:
    if followed.leader < 0:
        return ""
    return (
        f"broker {node} follows {followed.leader} in epoch {followed.epoch}: log end {followed.end},"
        f" high watermark {followed.mark}"
    )


def _truncate(node: int, cut: Truncated) -> str:
    if cut.before == cut.after:
        return ""
    return f"broker {node} cuts its log from {cut.before} to {cut.after}, {_WHY[cut.reason]}"


def _elected(node: int, partition: int, old: PartitionState, new: PartitionState) -> str:  # noqa: ARG001
    if new.leader < 0:
        return f"nobody can lead: ISR {_list(new.isr)}" + (f", ELR {_list(new.elr)}" if new.elr else "")
    how = "uncleanly " if new.unclean else ""
    return f"controller {node} {how}elects broker {new.leader} for epoch {new.epoch}, ISR {_list(new.isr)}"


def _shrink(node: int, shrunk: Shrunk) -> str:
    behind = ", ".join(f"{broker} at {end}" for broker, end in shrunk.out)
    return (
        f"leader {node} shrinks the ISR from {_list(shrunk.old)} to {_list(shrunk.new)}: log end {shrunk.end},"
        f" behind: {behind}"
    )


_SAY: dict[str, Callable[..., str]] = {
    "start": lambda node: f"broker {node} starts",
    "stop": lambda node, reason: f"broker {node} {_STOPS[reason]}",
    "pause": lambda node: f"broker {node} is paused",
    "resume": lambda node: f"broker {node} goes on",
    "loaded": _loaded,
    "leader": _leader,
    "follower": _follower,
    "follows-on": lambda node, followed: f"broker {node} still follows {followed.leader}, in epoch {followed.epoch}",
    "truncate": _truncate,
    "isr-shrink": _shrink,
    "isr-updated": lambda node, p, isr, version: f"the ISR of leader {node} is {_list(isr)}",  # noqa: ARG005
    "isr-propagated": lambda node, quiet: (
        f"leader {node} tells the controller of its changed ISRs, "
        + ("quiet for 5 s" if quiet else "never quiet for 5 s in the last 60 s")
    ),
    "elected": _elected,
    "fenced": lambda node, broker: f"broker {broker}'s session ends",  # noqa: ARG005
    "fenced-unseen": lambda node, broker: f"broker {broker}'s session ends, and no controller sees it",  # noqa: ARG005
    "registered-unseen": lambda node, broker: f"broker {broker} registers again, and no controller sees it",  # noqa: ARG005
    "leaving": lambda node, broker: f"broker {broker} is granted a controlled shutdown",  # noqa: ARG005
    "controller": lambda node, epoch: f"controller {node} takes over with controller epoch {epoch}",
    "refused-controller": lambda node, epoch, known: (
        f"broker {node} refuses a controller of epoch {epoch}, as it knows {known}"
    ),
    "out-of-order": lambda node, p, pid, end, seq, last: (  # noqa: ARG005
        f"leader {node} refuses p{pid}'s sequence number {seq} after {last}"
    ),
}
_OF_PARTITION = (
    "loaded",
    "leader",
    "follower",
    "follows-on",
    "truncate",
    "isr-shrink",
    "isr-updated",
    "elected",
    "out-of-order",
)
