"""The sentences of a narrative about consumers, transactions and faults. Code never parses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..replication.clients.consumer import CLOSED, KILLED
from ..replication.ports import Membership

Offsets = list[tuple[int, int | None]]  # by partition


def consumer_start(consumer: str, offsets: Offsets) -> str:
    """A consumer starts at committed or reset offsets; None if auto.offset.reset decides."""
    known = dict.fromkeys(str(offset) for _, offset in offsets if offset is not None)
    if known:
        return f"{consumer} starts at offset {', '.join(known)}"
    return f"{consumer} has no committed offset and starts by auto.offset.reset"


def consumer_crash(consumer: str, reason: str, reached: Mapping[str, Mapping[int, int]]) -> str:
    """A consumer's process ends. `reached`: by verb (read, handled, committed), the end offset of each partition."""
    progress = [
        f"{verb} up to offset {', '.join(str(ends[p]) for p in sorted(ends))}" for verb, ends in reached.items() if ends
    ]
    how = {KILLED: "crashes", CLOSED: "closes"}.get(reason, f"ends: {reason}")
    return f"{consumer} {how}" + (f"; it had {', '.join(progress)}" if progress else "")


def failed_transaction(producer: str, outcome: str, error: str) -> str:
    """A transaction ends neither committed nor aborted by its application."""
    verb = "is over" if outcome == "fail" else "ends with an unknown outcome"
    return f"{producer}'s transaction {verb}: {error}"


def refused_commit(consumer: str, offsets: list[tuple[int, int]], error: str, membership: Membership) -> str:
    """A member's commit is refused."""
    places = named_partitions([partition for partition, _ in offsets])
    return f"{consumer}'s commit of {places} in generation {membership.generation} is refused: {error}"


def member_start(consumer: str, offsets: Offsets, membership: Membership) -> str:
    """A member gets partitions, and the offsets where it starts to read them; None as for `consumer_start`."""
    places = named_partitions([partition for partition, _ in offsets])
    known = [str(offset) for _, offset in offsets if offset is not None]
    begins = f" from offset{'s' if len(known) > 1 else ''} {', '.join(known)}" if known else " by auto.offset.reset"
    return f"{consumer} owns {places} in generation {membership.generation}{begins}"


def named_partitions(partitions: Iterable[int]) -> str:
    """Partitions by number."""
    numbers = list(map(str, partitions))
    return f"partition{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def fault(kind: str, nodes: tuple[str, ...], is_heal: bool, parameters: dict[str, object]) -> str:
    """A fault begins or ends; empty if brokers or consumers report the same."""
    if kind not in _FAULTS:
        return ""
    begin, end = _FAULTS[kind](", ".join(nodes), parameters)
    return end if is_heal else begin


def _partition(nodes: str, parameters: dict[str, object]) -> tuple[str, str]:
    sides = f"{_node(nodes)} and {_target(nodes, parameters)}"
    return f"{sides} no longer reach each other", f"{sides} reach each other again"


def _one_way(nodes: str, parameters: dict[str, object]) -> tuple[str, str]:
    messages = f"messages from {_node(nodes)} to {_target(nodes, parameters)}"
    return f"{messages} are lost", f"{messages} arrive again"


def _target(nodes: str, parameters: dict[str, object]) -> str:
    to = parameters.get("to")
    others = "all other servers" if nodes[0].isdigit() else "all servers"
    return _node(", ".join(to)) if isinstance(to, list) else others


def _node(names: str) -> str:
    """Brokers and controllers are numbers; clients have names."""
    return f"node {names}" if names[0].isdigit() else names


def _share(parameters: dict[str, object]) -> str:
    return f"{parameters.get('amount', 0)} of 1000 messages"


# The beginning and the end of a fault. Brokers and consumers report their own stops and starts.
_FAULTS: dict[str, Callable[[str, dict[str, object]], tuple[str, str]]] = {
    "slow-disk": lambda nodes, parameters: (
        f"the disk of broker {nodes} is slow: {parameters.get('amount', 0)} ms more for each request",
        f"the disk of broker {nodes} is no longer slow",
    ),
    "add-partitions": lambda *_: ("an administrator adds partitions to the topic", ""),
    "consumer-seek": lambda nodes, parameters: (
        f"the application of {nodes} seeks to offset {parameters.get('amount', 0)}",
        "",
    ),
    "consumer-pause": lambda nodes, _: (f"the process of {nodes} is paused", f"{nodes} goes on"),
    "disk-full": lambda nodes, _: (f"the disk of broker {nodes} is full", f"the disk of broker {nodes} has room again"),
    "partition": _partition,
    "one-way": _one_way,
    "delay": lambda nodes, parameters: (
        f"messages between broker {nodes} and the others take {parameters.get('amount', 0)} ms longer",
        f"messages between broker {nodes} and the others are no longer delayed",
    ),
    "loss": lambda _, parameters: (
        f"{_share(parameters)} are lost with their connections",
        "messages are no longer lost",
    ),
    "duplication": lambda _, parameters: (f"{_share(parameters)} arrive twice", "messages no longer arrive twice"),
    "clock-skew": lambda nodes, parameters: (
        f"the clock of broker {nodes} jumps by {parameters.get('amount', 0)} ms",
        f"the clock of broker {nodes} jumps back",
    ),
    "controller-crash": lambda nodes, _: (
        f"controller {nodes} crashes" if nodes else "the active controller crashes",
        "the crashed controller starts again",
    ),
    "controller-pause": lambda nodes, _: (
        f"controller {nodes} is paused" if nodes else "the active controller is paused",
        "the paused controller resumes",
    ),
    "delete-records": lambda _, parameters: (
        f"an administrator deletes the records below offset {parameters.get('amount', 0)} (DeleteRecords)",
        "",
    ),
    "reassignment": lambda nodes, parameters: (
        f"an administrator reassigns partition {parameters.get('amount', 0)} to brokers {nodes}",
        "",
    ),
    "cancel-reassignment": lambda _, parameters: (
        f"an administrator cancels the reassignment of partition {parameters.get('amount', 0)}",
        "",
    ),
    "preferred-election": lambda *_: ("an administrator starts an election of the preferred leaders", ""),
}
