"""A run told in sentences, one numbered line an event: what a scenario's page and a search's find say."""

from __future__ import annotations

from collections.abc import Callable

from .cluster import Cluster
from .ledger import offsets
from .state import Fact, Followed, Led, PartitionState, Shrunk, Truncated, arguments
from .truth import lost, neighbours


def tell(cluster: Cluster, facts: list[Fact], limit: int = 60) -> list[str]:
    """The story of a finished run: its facts and the acknowledgements that were lost, in order of time."""
    lines: list[tuple[int, str]] = []
    single = cluster.config.partitions == 1
    for time, node, kind, details in facts:
        say = _SAY.get(kind)
        if say is None:
            continue
        sentence = say(node, *arguments(kind, details))
        if sentence and (time > 0 or kind != "start"):
            if not single and isinstance(details[0] if details else None, int) and kind in _OF_PARTITION:
                sentence = f"[{cluster.config.topic}-{details[0]}] {sentence}"
            lines.append((time, sentence))
    lines += _lost(cluster)
    lines.sort(key=lambda line: line[0])
    told = [f"{time / 1_000_000:.3f} s: {sentence}" for time, sentence in _merge(lines)]
    if len(told) > limit:
        left_out = len(told) - limit
        told = [*told[: limit // 2], f"({left_out} events left out)", *told[-(limit - limit // 2) :]]
    return [f"{number}. {line}" for number, line in enumerate(told, 1)]


def _lost(cluster: Cluster) -> list[tuple[int, str]]:
    """One line for each run of neighbouring offsets that were acknowledged and lost, at its first
    acknowledgement."""
    lines: list[tuple[int, str]] = []
    for run in neighbours(lost(cluster), lambda _: None):
        base, end = run[0].ack.base, run[-1].ack.end
        times = [one.ack.time for one in run]
        where = f" of {cluster.config.topic}-{run[0].partition}" if cluster.config.partitions > 1 else ""
        what = f"{offsets(base, end)}{where} {'is' if end == base + 1 else 'are'}"
        until = f" until {max(times) / 1_000_000:.3f} s" if max(times) > min(times) else ""
        lines.append((min(times), f"{what} acknowledged{until}, and will be lost"))
    return lines


def _merge(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
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
