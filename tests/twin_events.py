"""The operations of one tiny history, as the twins of the rules read them."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, NamedTuple

from notation import Event

FOREVER = 10**18


class Send(NamedTuple):
    """One sent record."""

    value: str
    key: str | None
    offset: int | None
    process: str
    outcome: str
    begun: int
    done: int
    op: tuple[str, int]
    acked: bool
    txn: bool


class Read(NamedTuple):
    """One polled record."""

    offset: int
    value: str | None
    process: str
    done: int
    op: tuple[str, int]


class Op(NamedTuple):
    """One operation."""

    process: str
    f: str
    outcome: str
    begun: int
    done: int
    event: Event  # its completion, or the invocation of an operation without one
    id: tuple[str, int]


def position_after(op: Op, position: int | None, rebalanced: bool) -> tuple[int | None, bool]:
    """A consumer's position after an operation that is no poll."""
    here = [place["offset"] for place in op.event.get("offsets", []) if place["partition"] == 0]
    group = bool(op.event.get("group"))
    if op.f == "crash":
        return None, False
    if op.f not in ("assign", "seek") or op.outcome == "fail":
        return position, rebalanced
    if op.event.get("revoked"):
        return (None, False) if here or not op.event["offsets"] else (position, rebalanced)
    if here:
        return here[0], group
    return (None, False) if op.f == "assign" and not group else (position, rebalanced)


def _with_named_tombstones(events: list[Event]) -> list[Event]:
    """The events with tombstones named after their offset, in sends and in polls; #2 is the second at its offset."""
    begun = {(event["process"], event["op"]): event["time"] for event in events if event["type"] == "invoke"}
    sent: dict[int, list[int]] = {}  # by offset: when each tombstone was invoked, in the order of their completions
    for event in sorted(events, key=lambda event: event["time"]):
        for step in event.get("ops", [event]):
            if step["f"] == "send" and step["value"] is None and step.get("offset") is not None:
                sent.setdefault(step["offset"], []).append(begun.get((event["process"], event["op"]), event["time"]))
    seen: dict[int, int] = {}

    def name(step: Event, time: int, is_record: bool = False) -> Event:
        records = [name(record, time, True) for record in step.get("records", [])]
        named = {**step, **({"records": records} if records else {})}
        if "ops" in step:
            named["ops"] = [name(inner, time) for inner in step["ops"]]
        if "value" in step and step["value"] is None and step.get("offset") in sent:
            offset = step["offset"]
            if is_record:
                began = sent[offset]
                number = max((n for n, at in enumerate(began, 1) if at <= time), key=lambda n: began[n - 1], default=1)
            else:
                number = seen[offset] = seen.get(offset, 0) + 1
            named["value"] = f"tombstone@{offset}" + (f"#{number}" if number > 1 else "")
        return named

    named = {id(event): name(event, event["time"]) for event in sorted(events, key=lambda event: event["time"])}
    return [named[id(event)] for event in events]


def operations(events: list[Event], without_acks: Set[str] = frozenset()) -> list[Op]:
    """Each invocation with its completion; tombstones, and attempts that can be distinguished, have names.

    No broker reported the offsets of the processes without acks (acks=0).
    """
    ops = list(_operations(_with_named_tombstones(events)))
    for step in (step for op in ops if op.process in without_acks for step in sends_of(op)):
        step.pop("offset", None)
    return _with_named_attempts(sorted(ops, key=lambda op: op.begun))


def _with_named_attempts(ops: list[Op]) -> list[Op]:
    """The operations with a name for each attempt to send a value that another attempt sent with success."""
    steps = [(op, step) for op in ops for step in sends_of(op)]
    reads = [read for op in ops for read in reads_of(op)]
    for value in {step["value"] for _, step in steps} - {None}:
        mine = [(op, step) for op, step in steps if step["value"] == value]
        placed = [(op, step) for op, step in mine if step.get("partition") is not None]
        winners = [number for number, (op, _) in enumerate(mine) if op.outcome == "ok"]
        if len(placed) < 2 or len(winners) > 1 or all(op.outcome == "ok" for op, _ in placed):
            continue
        remaining = mine[winners[0]][1] if winners else placed[-1][1]
        others = [(op, step) for op, step in mine if step is not remaining]
        offsets = [step["offset"] for _, step in mine if step.get("offset") is not None]
        blind = any(step.get("offset") is None for _, step in others)
        taken = {f"{value}#attempt-{number}" for number, _ in enumerate(mine, 1)}
        clear = len({*offsets}) == len(offsets) and not taken & {read.value for read in reads}
        for read in (read for read in reads if read.value == value):
            begun = [op.begun for op, step in mine if step.get("offset") == read.offset]
            if blind and (not begun or read.done < begun[0]):
                clear = False
            if remaining.get("offset") is None and begun:
                clear = False
        for number, (_, step) in enumerate(mine, 1):
            if clear and step is not remaining and step.get("partition") is not None:
                name = f"{value}#attempt-{number}"
                for record in (record for op in ops for record in _records_at(op, step.get("offset"), value)):
                    record["value"] = name
                step["value"] = name
    return ops


def sends_of(op: Op) -> list[Event]:
    """The sends of an operation."""
    return [step for step in op.event.get("ops", [op.event]) if step["f"] == "send"]


def is_unsure(twin: Any, send: Send) -> bool:
    """Whether its acks is not recorded, and only other producers were returned offsets."""
    acknowledged = [op for op in twin.ops if op.f == "send" and op.outcome == "ok"]
    placed = {op.process for op in acknowledged if op.event.get("offset") is not None}
    unset = {op.process for op in acknowledged if twin.setting_of(op.process, "acks") is None}
    return bool(placed) and send.process in unset - placed


def _records_at(op: Op, offset: int | None, value: str) -> list[Event]:
    """The records with a value at an offset that an operation polled or handled."""
    records = [record for step in op.event.get("ops", [op.event]) for record in step.get("records", [])]
    return [
        record for record in records if offset is not None and (record["offset"], record["value"]) == (offset, value)
    ]


def _operations(events: list[Event]) -> Iterator[Op]:
    for event in events:
        if event["type"] == "invoke":
            name = (event["process"], event["op"])
            ends = [e for e in events if (e["process"], e["op"]) == name and e["type"] != "invoke"]
            merged = {**event, **(ends[0] if ends else {})}
            outcome = ends[0]["type"] if ends else "info"
            yield Op(
                event["process"], event["f"], outcome, event["time"], merged["time"] if ends else FOREVER, merged, name
            )


def reads_of(op: Op) -> Iterator[Read]:
    """The records that an operation polled."""
    for step in op.event.get("ops", [op.event]):
        for record in step.get("records", []) if step["f"] == "poll" else []:
            yield Read(record["offset"], record["value"], op.process, op.done, op.id)


def places(op: Op, f: str) -> list[tuple[int, int | None]]:
    """(offset, log start) of partition 0 in an operation of this function."""
    places = op.event.get("offsets", []) if op.f == f and not op.event.get("revoked") else []
    return [(p["offset"], p.get("start")) for p in places if p["partition"] == 0 and p["offset"] is not None]


def positions_set_by(ops: list[Op], process: str) -> list[int]:
    """The offsets to which a process set its position."""
    mine = [op for op in ops if op.process == process and op.outcome == "ok"]
    return [offset for op in mine for f in ("assign", "seek") for offset, _ in places(op, f)]


def reach_since(time: int, ends: list[tuple[Op, int, Any]], acked: list[Send]) -> int:
    """The highest offset with a record behind it from a time on: by an answered end offset or an acknowledged send."""
    answered = [end - 1 for op, end, _ in ends if op.done >= time]
    return max([-1, *answered, *(send.offset - 1 for send in acked if send.offset is not None and send.begun >= time)])


def remains(twin: Any, send: Send) -> bool:
    """Is it certainly in the log at the end, as it was not lost, cut off or compacted?"""
    gone = is_gone(twin, send) or twin.compacted(send.value) or twin.maybe_compacted(send.value)
    return not gone and (send.offset, send.value) not in cut_off_records(twin)


def is_outlived(twin: Any, tombstone: str) -> bool:
    """Did the final reads return an earlier record of its key, and not the tombstone?"""
    returned = {(read.offset, read.value) for read in twin.reads if twin.final and read.value in twin.final["values"]}
    placed = [send for send in twin.sends if send.key and send.offset is not None and send.outcome != "fail"]
    return any(
        earlier.key == send.key and earlier.offset < send.offset and (earlier.offset, earlier.value) in returned
        for send in placed
        for earlier in placed
        if send.value == tombstone and (send.offset, tombstone) not in returned
    )


def returned_after(twin: Any, value: str, offset: int, time: int) -> bool:
    """Did the final reads, which began after a time, return it? Then nothing had removed it by that time."""
    mine = [read for read in twin.reads if read.process == "final" and read.done >= twin.healed]
    if not twin.final or not mine:
        return False
    set_at = [op.done for op in twin.ops if op.process == "final" for _ in (*places(op, "assign"), *places(op, "seek"))]
    first = min(read.done for read in mine)
    return min([max(set_at, default=first), first]) > time and any(
        (read.value, read.offset) == (value, offset) for read in mine
    )


def was_truncated(twin: Any, send: Send) -> bool:
    """Whether its offset held another value later, or a later log end was at or below it."""
    value, offset = send.value, twin.offset_of(send.value)
    assert offset is not None
    seen_at = [send.done] + [read.done for read in twin.reads if read.value == value]
    for other in twin.values_by_offset()[offset] - {value}:
        times = [entry.done for entry in twin.reads if (entry.offset, entry.value) == (offset, other)]
        times += [one.done for one in twin.sends if (one.offset, one.value, one.outcome) == (offset, other, "ok")]
        if times and min(times) > placed_since(twin, send):
            return True
    ends = [(op.begun, end) for op, end in twin.log_ends if op.begun > max(seen_at) and end <= offset]
    return any(reach_since(time, twin.ends, twin.acked) < offset for time, _ in ends)


def placed_since(twin: Any, send: Send) -> int:
    """The first time at which it was known to be at its offset: acknowledged there, or read there."""
    offset = twin.offset_of(send.value)
    read_at = [read.done for read in twin.reads if (read.value, read.offset) == (send.value, offset)]
    return min([*read_at, *([send.done] if send.offset is not None else [])])


def is_displaced(twin: Any, send: Send) -> bool:
    """Did the final reads return another value at its only offset, after it was acknowledged?"""
    sent = {one.offset for one in twin.sends if one.value == send.value}
    is_elsewhere = any(read.value == send.value and read.offset not in sent for read in twin.reads)
    if not twin.final or is_elsewhere or send.value in twin.final["values"] or send.done >= twin.final["until"]:
        return False
    final_reads = [read for read in twin.reads if read.process == "final" and read.done >= twin.healed]
    return any(read.offset == send.offset for read in final_reads)


def may_be_compacted_below(twin: Any, send: Send) -> bool:
    """May an earlier attempt have written it at an offset without a known record, where a later record replaced it?"""
    is_idempotent = twin.setting_of(send.process, "enable.idempotence") is True
    offset = twin.offset_of(send.value)
    if not twin.compacts() or is_idempotent or offset is None or send.key is None:
        return False
    if twin.final and send.value in twin.final["values"]:
        return False
    placed = [one for one in twin.acked if one.done <= send.begun and twin.offset_of(one.value) is not None]
    before = [twin.offset_of(one.value) for one in placed if not was_truncated(twin, one)]
    reached = max(before, default=twin.start - 1)
    others = [one for one in twin.sends if one.key == send.key and one is not send and one.outcome != "fail"]
    places = [twin.offset_of(other.value) for other in others]
    is_replaced = any(place is None or place > reached for place in places)
    return is_replaced and bool({*range(reached + 1, offset)} - {*twin.values_by_offset()})


def truncated_offsets(twin: Any) -> set[int]:
    """The offsets of gone sends that a truncation removed."""
    signs = was_truncated, is_displaced
    gone = {send.value for send in twin.acked if is_gone(twin, send) and any(sign(twin, send) for sign in signs)}
    return {offset for value in gone if (offset := twin.offset_of(value)) is not None}


def read_since(twin: Any, offset: int, value: str) -> list[int]:
    """The times since which a record without a recorded send is known; always, if nothing above was truncated."""
    rewritten = {offset for offset, values in twin.values_by_offset().items() if len(values) > 1}
    if max(rewritten | truncated_offsets(twin), default=-1) < offset:
        return [0]
    return [read.done for read in twin.reads if (read.offset, read.value) == (offset, value)]


def cut_off_records(twin: Any) -> set[tuple[int | None, str]]:
    """Records (offset, value) that were known before one was sent, no higher, to an offset that held two values."""
    placed = [(send.offset, send.begun) for send in twin.sends if send.offset is not None]
    placed += [(offset, send.begun) for send, offset in twin.found()]
    placed = [(offset, begun) for offset, begun in placed if len(twin.values_by_offset()[offset]) > 1]
    return {
        (offset, value)
        for done, offset, value in twin.known()
        if any(other <= offset and done < begun for other, begun in placed)
    }


def is_gone(twin: Any, send: Send) -> bool:
    """Is it lost, or was it truncated after it had been deleted, surely or perhaps?"""
    is_read = bool(twin.final) and send.value in twin.final["values"]
    is_placed = twin.offset_of(send.value) is not None and not is_read
    return twin.is_lost(send) or (is_placed and bool(deleted_first(twin, send)))


def deleted_first(twin: Any, send: Send) -> str:
    """Was a truncated record deleted before any sign of the truncation? "surely", "perhaps" or "" for no."""
    offset = twin.offset_of(send.value)
    reads = [read.done for read in twin.reads if read.value == send.value]
    if not was_truncated(twin, send):
        return ""
    signs: list[tuple[int, int]] = []  # of the truncation: it came not before the first time, but before the second
    for other in twin.values_by_offset()[offset] - {send.value}:
        known = [read.done for read in twin.reads if (read.offset, read.value) == (offset, other)]
        known += [one.done for one in twin.sends if (one.offset, one.value, one.outcome) == (offset, other, "ok")]
        if known and min(known) > placed_since(twin, send):
            signs.append((min([one.begun for one in twin.sends if one.value == other], default=-1), min(known)))
    for op, end in twin.log_ends:
        if (
            op.begun > max([send.done, *reads])
            and end <= offset
            and reach_since(op.begun, twin.ends, twin.acked) < offset
        ):
            signs.append((op.begun, op.done))
    deletions = [(op, deleted_below(op)) for op in twin.ops]
    reach = max(end for _, end, _ in [*twin.ends, (None, 0, None)])
    reach = max([reach, *(one.offset + 1 for one in (*twin.sends, *twin.reads) if one.offset is not None)])
    deletions = [(op, start) for op, start in deletions if min(start, reach) > offset]
    requested = [op.done for op, start in deletions if op.outcome == "ok" and start <= reach]
    reported = [(op.done, start) for op, end, start in twin.ends if start is not None and offset < start <= end]
    requested += [done for done, start in reported if any(op.begun <= done and at >= start for op, at in deletions)]
    for passed in (
        min(requested, default=FOREVER),
        min([*requested, *(done for done, _ in reported)], default=FOREVER),
    ):
        if max([send.done, *reads]) <= passed <= min((begun for begun, _ in signs), default=-1):
            return "surely"
    if replaced_since(twin, send) < min((known for _, known in signs), default=-1):
        return "perhaps"  # by compaction
    first = min((op.begun for op, _ in deletions), default=FOREVER)
    is_possible = first < min((known for _, known in signs), default=FOREVER) and send.begun <= min(
        requested, default=FOREVER
    )
    return "perhaps" if is_possible and any(send.begun <= op.done for op, _ in deletions) else ""


def replaced_since(twin: Any, send: Send, expires: bool = True) -> int:
    """When the first record of its key was sent that is or may be behind a send; a tombstone also expires."""
    here, above, times = twin.offset_of(send.value), [], []
    for other in twin.sends if send.key else []:
        if other.key == send.key and other.value != send.value and "fail" not in (send.outcome, other.outcome):
            there, is_later = twin.offset_of(other.value), not (other.acked and other.done < send.begun)
            above += [(other.begun, is_later)] if there is not None and there > here else []
            times += [other.begun] if there is None and is_later else []
    times += [begun for begun, _ in above] if any(is_later for _, is_later in above) else []
    if expires and send.value.startswith("tombstone@"):
        retention_ms = int(twin.config["topics"]["x"].get("delete.retention.ms", 86_400_000))
        times.append(send.begun + retention_ms * 1_000_000)
    return min(times, default=FOREVER) if twin.compacts() else FOREVER


def deleted_below(op: Op) -> int:
    """The offset of a delete-records that did not fail; 0 for other operations."""
    fault = op.event.get("fault", {})
    return int(fault["offsets"]["0"]) if fault.get("kind") == "delete-records" and op.outcome != "fail" else 0
