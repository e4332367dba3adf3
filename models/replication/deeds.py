"""What clients and faults did, kept for the story of a run: who sent, wrote, was told of and read which values.

A run of which no story is asked has no witness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .cluster import Cluster
from .history import Given
from .ledger import offsets
from .producer import ProducerBatch


@dataclass(frozen=True, slots=True)
class Deed:
    """Somebody did something with the values `first` up to `end` of a producer, which stand from `base` on (-1: not
    known)."""

    time: int
    does: str  # "p0 sends {}", with a place for the values
    partition: int
    producer: int
    first: int
    end: int
    base: int = -1


class Witness:
    """A History that remembers: deeds by value, and lines (time, sentence) that are told in any case."""

    def __init__(self) -> None:
        self.deeds: list[Deed] = []
        self.lines: list[tuple[int, str]] = []
        self.acknowledged = 0
        self.repeated = 0  # batches that took more than one attempt
        self._cluster: Cluster | None = None
        self._read: dict[str, dict[int, int]] = {}  # consumer -> partition -> end
        self._handled: dict[str, dict[int, int]] = {}
        self._committed: dict[str, dict[int, int]] = {}

    def attend(self, cluster: Cluster) -> None:
        """Before the first event: leaders' appends are seen too."""
        self._cluster = cluster
        cluster.ledger.witness = self.wrote

    def told(self) -> list[tuple[int, str]]:
        """The lines, with one that sums up what producers did."""
        sends = [deed.time for deed in self.deeds if deed.does.endswith(" sends {}")]
        if not sends:
            return self.lines
        values = "1 value" if len(sends) == 1 else f"{len(sends)} values until {sends[-1] / 1_000_000:.3f} s"
        told = f"{self.acknowledged} {'is' if self.acknowledged == 1 else 'are'} acknowledged"
        text = f"producers begin to send: {values}; {told}"
        if self.repeated:
            text += f", {self.repeated} {'batches are' if self.repeated > 1 else 'batch is'} sent more than once"
        return [(sends[0], text), *self.lines]

    # --- producers

    def send(self, time: int, process: str, op: int, partition: int, value: int) -> None:  # noqa: ARG002
        self.deeds.append(Deed(time, f"{process} sends {{}}", partition, int(process[1:]), value, value + 1))

    def wrote(self, batch: ProducerBatch) -> None:
        assert self._cluster is not None
        again = f" at attempt {batch.attempts}" if batch.attempts > 1 else ""
        does = f"the leader of epoch {batch.epoch} writes {{}}{again}"
        end = batch.first + batch.count
        self.deeds.append(Deed(self._cluster.loop.now, does, batch.partition, batch.producer, batch.first, end))

    def sent(self, time: int, process: str, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:
        ok = outcome == "ok"
        does = f"{process} gets the acknowledgement of {{}}" if ok else f"{process} gives up {{}} ({error})"
        if ok:
            self.acknowledged += batch.count
        self.repeated += batch.attempts > 1
        end = batch.first + batch.count
        self.deeds.append(Deed(time, does, batch.partition, batch.producer, batch.first, end, base))

    # --- consumers

    def poll(self, time: int, process: str, op: int) -> None: ...

    def polled(self, time: int, process: str, op: int, given: Given) -> None:  # noqa: ARG002
        if process != "final":
            self._took(time, f"{process} reads {{}}", given)
            _reach(self._read.setdefault(process, {}), given)

    def handle(self, time: int, process: str, op: int, given: Given) -> None:  # noqa: ARG002
        ends = self._handled.setdefault(process, {})
        for partition in sorted({p for p, _ in given}):
            base = min(batch.base for p, batch in given if p == partition)
            end = min(max(batch.end for p, batch in given if p == partition), ends.get(partition, 0))
            if base < end:
                self.lines.append((time, f"{process} handles {offsets(base, end)} again"))
        self._took(time, f"{process} handles {{}}", given)
        _reach(ends, given)

    def _took(self, time: int, does: str, given: Given) -> None:
        for p, batch in given:
            end = batch.first + batch.end - batch.base
            self.deeds.append(Deed(time, does, p, batch.producer, batch.first, end, batch.base))

    def commit(self, time: int, process: str, op: int, offsets: list[tuple[int, int]]) -> None:  # noqa: ARG002
        self._committed[process] = dict(offsets)

    def assign(self, time: int, process: str, op: int, offsets: list[tuple[int, int | None]]) -> None:  # noqa: ARG002
        if process == "final":
            return
        known = dict.fromkeys(str(offset) for _, offset in offsets if offset is not None)
        where = f"at offset {', '.join(known)}" if known else "where auto.offset.reset says: it has committed nothing"
        self.lines.append((time, f"{process} begins {where}"))

    def crash(self, time: int, process: str, op: int) -> None:  # noqa: ARG002
        said = [
            f"{verb} up to {', '.join(str(ends[p]) for p in sorted(ends))}"
            for verb, ends in (
                ("read", self._read.get(process)),
                ("handled", self._handled.get(process)),
                ("committed", self._committed.get(process)),
            )
            if ends
        ]
        self.lines.append((time, f"{process} dies, having {', '.join(said)}" if said else f"{process} dies"))

    # --- everybody else

    def end_offsets(self, invoked: int, time: int, offsets: dict[int, tuple[int, int]]) -> None: ...

    def fault(self, time: int, kind: str, nodes: tuple[int, ...], heal: bool, extra: dict[str, object]) -> None:
        say = _FAULTS.get(kind)
        if say is not None:
            sentence = say(_named(nodes), extra)[heal]
            if sentence:
                self.lines.append((time, sentence))


def _reach(ends: dict[int, int], given: Given) -> None:
    for partition, batch in given:
        ends[partition] = max(ends.get(partition, 0), batch.end)


def _named(nodes: tuple[int, ...]) -> str:
    return ", ".join(map(str, nodes))


def _one_way(nodes: str, extra: dict[str, object]) -> tuple[str, str]:
    to = extra.get("to")
    whom = ", ".join(to) if isinstance(to, list) else "all other servers"
    return f"messages from {nodes} to {whom} are lost", f"messages from {nodes} to {whom} arrive again"


def _share(extra: dict[str, object]) -> str:
    return f"{extra.get('amount', 0)} of 1000 messages"


# What a fault and its end are called. Brokers that die, stop or start tell it themselves, and so do consumers.
_FAULTS: dict[str, Callable[[str, dict[str, object]], tuple[str, str]]] = {
    "slow-disk": lambda nodes, extra: (
        f"the disk of broker {nodes} is slow: {extra.get('amount', 0)} ms more for each request",
        f"the disk of broker {nodes} is as fast as before",
    ),
    "disk-full": lambda nodes, _: (f"the disk of broker {nodes} is full", f"the disk of broker {nodes} has room again"),
    "partition": lambda nodes, _: (
        f"{nodes} and all other servers no longer reach each other",
        f"{nodes} and all other servers reach each other again",
    ),
    "one-way": _one_way,
    "delay": lambda nodes, extra: (
        f"messages between broker {nodes} and the others take {extra.get('amount', 0)} ms longer",
        f"messages between broker {nodes} and the others are as fast as before",
    ),
    "loss": lambda _, extra: (f"{_share(extra)} are lost with their connections", "no messages are lost any more"),
    "duplication": lambda _, extra: (f"{_share(extra)} arrive twice", "messages arrive once again"),
    "clock-skew": lambda nodes, extra: (
        f"the clock of broker {nodes} jumps by {extra.get('amount', 0)} ms",
        f"the clock of broker {nodes} jumps back",
    ),
    "controller-crash": lambda nodes, _: (
        f"controller {nodes} dies" if nodes else "the active controller dies",
        "the dead controller starts again",
    ),
    "controller-pause": lambda nodes, _: (
        f"controller {nodes} is paused" if nodes else "the active controller is paused",
        "the paused controller goes on",
    ),
    "delete-records": lambda _, extra: (
        f"an administrator deletes what is below offset {extra.get('amount', 0)} (DeleteRecords)",
        "",
    ),
    "preferred-election": lambda *_: ("an administrator asks for preferred leaders", ""),
}
