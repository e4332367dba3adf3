"""The sentences of a narrative about consumers, transactions and faults. Code never parses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    begin, end = _FAULTS.get(kind, ("", ""))
    names, to = ", ".join(nodes), parameters.get("to")
    all_others = "all other servers" if names[:1].isdigit() else "all servers"
    return (end if is_heal else begin).format(
        nodes=names,
        amount=parameters.get("amount", 0),
        source=_node(names),
        target=_node(", ".join(to)) if isinstance(to, list) else all_others,
        controller=f"controller {names}" if nodes else "the active controller",
    )


def _node(names: str) -> str:
    """Brokers and controllers are numbers; clients have names."""
    return f"node {names}" if names[:1].isdigit() else names


# The beginning and the end of a fault. Brokers and consumers report their own stops and starts.
_FAULTS = {
    "slow-disk": (
        "the disk of broker {nodes} is slow: {amount} ms more for each request",
        "the disk of broker {nodes} is no longer slow",
    ),
    "add-partitions": ("an administrator adds partitions to the topic", ""),
    "consumer-seek": ("the application of {nodes} seeks to offset {amount}", ""),
    "consumer-pause": ("the process of {nodes} is paused", "{nodes} goes on"),
    "disk-full": ("the disk of broker {nodes} is full", "the disk of broker {nodes} has room again"),
    "partition": ("{source} and {target} no longer reach each other", "{source} and {target} reach each other again"),
    "one-way": ("messages from {source} to {target} are lost", "messages from {source} to {target} arrive again"),
    "delay": (
        "messages between broker {nodes} and the others take {amount} ms longer",
        "messages between broker {nodes} and the others are no longer delayed",
    ),
    "loss": ("{amount} of 1000 messages are lost with their connections", "messages are no longer lost"),
    "duplication": ("{amount} of 1000 messages arrive twice", "messages no longer arrive twice"),
    "clock-skew": ("the clock of broker {nodes} jumps by {amount} ms", "the clock of broker {nodes} jumps back"),
    "controller-crash": ("{controller} crashes", "the crashed controller starts again"),
    "controller-pause": ("{controller} is paused", "the paused controller resumes"),
    "delete-records": ("an administrator deletes the records below offset {amount} (DeleteRecords)", ""),
    "reassignment": ("an administrator reassigns partition {amount} to brokers {nodes}", ""),
    "cancel-reassignment": ("an administrator cancels the reassignment of partition {amount}", ""),
    "preferred-election": ("an administrator starts an election of the preferred leaders", ""),
}
