"""The sentences of a narrative about producers and brokers, one for each kind of event. Code never parses them."""

# ruff: noqa: ARG001, ARG005  a sentence gets all details of its event

from __future__ import annotations

from collections.abc import Callable

from ..replication.events import Followed, Led, Shrunk, Truncated
from ..replication.partition_state import PartitionState
from .trace import ACKNOWLEDGED, APPEND, GIVE_UP, Step

# --- producers


def step_sentence(step: Step, producer: int, first: int, end: int) -> str:
    """A step with a producer's values from `first` to `end` (exclusive), as a sentence."""
    owner = "its" if step.actor == f"p{producer}" else f"p{producer}'s"
    values = f"{owner} value {first}" if end == first + 1 else f"{owner} values {first} to {end - 1}"
    if step.action == APPEND:
        return f"the leader of epoch {step.epoch} appends {values}" + (
            f" (attempt {step.attempt})" if step.attempt > 1 else ""
        )
    if step.action == GIVE_UP:
        return f"{step.actor} gives up {values} ({step.error})"
    if step.action == ACKNOWLEDGED:
        return f"{step.actor} gets the acknowledgement of {values}"
    return f"{step.actor} {step.action}s {values}"


def load_sentence(times: list[int], acknowledged: int, retried: int) -> str:
    """All sends of the producers, as a sentence; `times` are their times."""
    values = "1 value" if len(times) == 1 else f"{len(times)} values until {times[-1] / 1_000_000:.3f} s"
    text = f"producers begin to send: {values}, {acknowledged} acknowledged"
    if retried:
        text += f", {retried} {'batches' if retried > 1 else 'batch'} sent more than once"
    return text


# --- brokers, quorum and controllers

_STOPS = {
    "crash": "crashes (its page cache survives)",
    "power-loss": "loses power",
    "shutdown": "shuts down (controlled)",
    "disk-full": "halts, as its disk is full",
}
_TRUNCATIONS = {
    "high-watermark": "to its high watermark",
    "epoch": "to the end offset that the leader returned for its last leader epoch",
    "out-of-range": "to the leader's log end, because it fetched beyond it",
    "unclean-disk": "because the unflushed tail was lost",
}


def _set(nodes: tuple[int, ...]) -> str:
    return "{" + ", ".join(str(node) for node in nodes) + "}"


def _leader(node: int, led: Led) -> str:
    how = ", elected uncleanly" if led.is_unclean else ""
    return (
        f"broker {node} leads epoch {led.epoch} from offset {led.end}, high watermark {led.hw},"
        f" ISR {_set(led.isr)}{how}"
    )


def _follower(node: int, followed: Followed) -> str:
    if followed.leader < 0:
        return ""
    return (
        f"broker {node} follows {followed.leader} in epoch {followed.epoch}: log end {followed.end},"
        f" high watermark {followed.hw}"
    )


def _truncate(node: int, cut: Truncated) -> str:
    if cut.before == cut.after:
        return ""
    return f"broker {node} truncates its log from {cut.before} to {cut.after}, {_TRUNCATIONS[cut.reason]}"


def _elected(node: int, partition: int, old: PartitionState, new: PartitionState) -> str:
    if new.leader < 0:
        return f"no replica can lead: ISR {_set(new.isr)}" + (f", ELR {_set(new.elr)}" if new.elr else "")
    how = "uncleanly " if new.is_unclean else ""
    return f"controller {node} {how}elects broker {new.leader} for epoch {new.epoch}, ISR {_set(new.isr)}"


def _shrink(node: int, shrunk: Shrunk) -> str:
    removed = ", ".join(f"that of broker {broker} is {end}" for broker, end in shrunk.out)
    return (
        f"leader {node} shrinks the ISR from {_set(shrunk.old)} to {_set(shrunk.new)}: its log end is {shrunk.end},"
        f" {removed}"
    )


def _reassignment(node: int, partition: int, what: str, old: PartitionState, new: PartitionState) -> str:
    text = f"reassignment {what}: replicas {_set(new.replicas)}"
    text += f", adding {_set(new.adding)}" if new.adding else ""
    return text + (f", removing {_set(new.removing)}" if new.removing else "")


def _propagated(node: int, quiet: bool) -> str:
    why = "they were unchanged for 5 s" if quiet else "they kept changing for 60 s"
    return f"leader {node} notifies the controller of its changed ISRs: {why}"


# By the kind of a ClusterEvent; the arguments are the node and the details. An empty sentence is left out.
PARTITION_SENTENCES: dict[str, Callable[..., str]] = {  # the first detail is or has a partition
    "loaded": lambda node, p, end, mark, was_clean: (
        f"broker {node} loads its log: end {end}, checkpointed high watermark {mark}"
    ),
    "leader": _leader,
    "follower": _follower,
    "follows-on": lambda node, followed: f"broker {node} still follows {followed.leader}, in epoch {followed.epoch}",
    "truncate": _truncate,
    "isr-shrink": _shrink,
    "isr-updated": lambda node, p, isr, version: f"the ISR of leader {node} is {_set(isr)}",
    "elected": _elected,
    "retention": lambda node, p, first, start, reason: (
        f"broker {node} deletes the segments below offset {start} (retention by {reason})"
    ),
    "cleaned": lambda node, p, first, end, count: (
        f"broker {node} compacts offsets {first} to {end - 1}, which removes {count} records"
    ),
    "records-deleted": lambda node, p, offset, low: (
        f"leader {node} completes DeleteRecords below {offset}: the low watermark is {low}"
    ),
    "delete-timed-out": lambda node, p, offset, low: (
        f"leader {node} gives up DeleteRecords below {offset}: the low watermark is still {low}"
    ),
    "reassignment": _reassignment,
    "removed-replica": lambda node, p, end: f"broker {node} deletes its replica, which ended at {end}",
    "out-of-order": lambda node, p, pid, end, seq, last: (
        f"leader {node} refuses p{pid}'s sequence number {seq}, as the last was {last}"
    ),
}
NODE_SENTENCES: dict[str, Callable[..., str]] = {
    "start": lambda node: f"broker {node} starts",
    "stop": lambda node, reason: f"broker {node} {_STOPS[reason]}",
    "pause": lambda node: f"broker {node} is paused",
    "resume": lambda node: f"broker {node} resumes",
    "isr-propagated": _propagated,
    "fenced": lambda node, broker: f"the session of broker {broker} ends",
    "fenced-unseen": lambda node, broker: f"the session of broker {broker} ends, without an active controller",
    "registered-unseen": lambda node, broker: f"broker {broker} registers again, without an active controller",
    "leaving": lambda node, broker: f"broker {broker} is granted a controlled shutdown",
    "controller": lambda node, epoch: f"controller {node} takes over with controller epoch {epoch}",
    "refused-controller": lambda node, epoch, known: (
        f"broker {node} refuses a controller of epoch {epoch}, as it knows epoch {known}"
    ),
    "group-loaded": lambda node, generation, members, offsets: (
        f"coordinator {node} has loaded the group: generation {generation}, {members} members,"
        f" {len(offsets)} committed offsets"
    ),
    "group-converted": lambda node, protocol, generation: (
        f"coordinator {node} converts the group of generation {generation} to {protocol} protocol"
    ),
    "transactions-loaded": lambda node, ids, ongoing, prepared: (
        f"coordinator {node} has loaded {ids} transactional ids: {ongoing} open transactions, {prepared} prepared ones"
    ),
    "transaction-fenced": lambda node, name, epoch, new: (
        f"coordinator {node} aborts {name}'s open transaction of epoch {epoch} in epoch {new}, as another producer"
        " begins with this id"
    ),
    "transaction-timed-out": lambda node, name, epoch, lasted: (
        f"coordinator {node} aborts {name}'s transaction of epoch {epoch}, as it is open for {lasted / 1_000_000:.1f} s"
    ),
    "static-member-replaced": lambda node, old, new, generation: (
        f"coordinator {node} gives the place of {old} in generation {generation} to {new}, as both have one"
        " group.instance.id"
    ),
    "static-member-away": lambda node, member: (
        f"coordinator {node} keeps the partitions of {member}, a static member that closed, until its session ends"
    ),
    "offsets-expired": lambda node, partitions, is_dead: (
        f"coordinator {node} removes the expired offsets of partition{'s' if len(partitions) > 1 else ''}"
        f" {', '.join(map(str, partitions))}{', and the group' if is_dead else ''}"
    ),
    "session-ended": lambda node, member, generation: (
        f"coordinator {node} removes {member} from generation {generation}, as its session ended"
    ),
    "member-fenced": lambda node, member, epoch, is_late: (
        f"coordinator {node} removes {member}, which closed and did not come back before its session ended"
        if epoch < 0
        else f"coordinator {node} fences {member} in epoch {epoch}, as "
        + ("it did not give its partitions up in time" if is_late else "its session ended")
    ),
}
