"""The naive twins of consumer-loss and commit-regression; see twins.py."""

from __future__ import annotations

from collections.abc import Iterator

from twin_events import FOREVER, Op, Read, is_gone, places, reads_of
from twins import Breach, Twin


def breaches(twin: Twin) -> Iterator[Breach]:
    for members in _groups(twin):
        yield from _consumer_loss(twin, members)
        for ordered in [members] if _name(twin, members[0]) else [[member] for member in members]:
            yield from _regressions(twin, ordered)
            yield from _handled_twice(twin, ordered)
            yield from _beyond_end(twin, ordered)


def _name(twin: Twin, process: str) -> str:
    return str(twin.setting_of(process, "group.id") or "")


def _groups(twin: Twin) -> list[list[str]]:
    """Consumers that committed here or were assigned by a group, with the others of their group."""
    active = [op.process for op in twin.ops if _commits_of(op) is not None or (_here(op) and op.event.get("group"))]
    groups: dict[str, set[str]] = {}
    for process in active:
        name = _name(twin, process)
        groups.setdefault(name, set()).add(process)
        groups[name] |= {other for other in twin.processes if name and _name(twin, other) == name}
    return [sorted(members) for members in groups.values()]


def _here(op: Op) -> bool:
    return any(place["partition"] == 0 for place in op.event.get("offsets", []))


def _commits_of(op: Op) -> int | None:
    for step in op.event.get("ops", [op.event]):
        if step["f"] == "commit":
            return int(step["offsets"][0]["offset"])
    return None


def _committed(twin: Twin, members: list[str]) -> list[tuple[Op, int]]:
    found = [(op, _commits_of(op)) for op in twin.ops if op.process in members and op.outcome == "ok"]
    return [(op, offset) for op, offset in found if offset is not None]


def _consumer_loss(twin: Twin, members: list[str]) -> Iterator[Breach]:
    polls = [(op, read) for op in twin.ops if op.process in members for read in reads_of(op)]
    handled = {(read.offset, read.value) for op, read in polls if op.f != "txn" or op.outcome != "fail"}
    if any(op.f == "handle" and op.process in members for op in twin.ops):
        handled = {
            (r["offset"], r["value"])
            for op in twin.ops
            if op.f == "handle" and op.process in members
            for r in op.event["records"]
        }
        within = {op.id for op, _ in _committed(twin, members) if op.f == "txn"}
        handled |= {(read.offset, read.value) for op, read in polls if op.id in within}
    in_doubt = set(_handled_in_doubt(twin, members, polls))
    elsewhere = _handled_by_any(twin) if any(_is_committing_producer(twin, member) for member in members) else set()
    dirty = any(twin.reads_uncommitted(member) for member in members)
    gone = {send.value for send in twin.acked if is_gone(twin, send)}
    held = twin.values_by_offset()
    reader = next((member for member in members if twin.reads_uncommitted(member)), "") if dirty else ""
    commits = _committed(twin, members)
    last = commits[-1][1] if commits else 0
    # An assigned offset was committed, too.
    done = max((op.done for op, _ in commits), default=-1)
    assigned = [(op, offset) for op, offset in _assigned(twin, members) if op.begun >= done and offset > last]
    commits += sorted(assigned, key=lambda each: each[0].done)
    last = commits[-1][1] if commits else 0
    first, reset = 0, False
    if polls:
        begun = min(op.done for op, _ in polls)
        # A seek or a committed offset chose where the group began; otherwise auto.offset.reset did.
        set_to = [
            offset
            for op in twin.ops
            if op.process in members and op.outcome != "fail" and op.done <= begun
            for offset, _ in (*places(op, "assign"), *places(op, "seek"))
        ]
        lowest = min(read.offset for _, read in polls)
        first, reset = min([*set_to, lowest]), not set_to or min(set_to) > lowest
    joined = [op.done for op in twin.ops if op.process in members and _joins(op)]
    name = _name(twin, members[0])
    lacks_lines = bool(name) and _lacks_first_lines(twin, members, polls)
    records_handles = any(op.f == "handle" and op.process in members for op in twin.ops)
    for offset in sorted(held):
        if lacks_lines and (records_handles or not _is_within_poll(polls, offset)):
            continue
        passing = [op.done for op, to in commits if to > offset]
        passing += [min(op.done for op, _ in polls)] if offset < first else []
        if not passing or offset not in twin.present_offsets(reader, min(passing)):
            continue
        left = [value for value in held[offset] - gone if twin.visible(offset, value, reader)]
        if at_last := {read.value for read in twin.reads if read.offset == offset and _is_final(twin, read)}:
            left = [value for value in left if value in at_last]
        left = [value for value in left if (offset, None) not in handled and value not in {it for _, it in handled}]
        if not left:
            continue
        if offset in in_doubt or any((offset, value) in elsewhere for value in (*held[offset], None)):
            continue
        if first <= offset < last:
            sent = [send.begun for send in twin.sends if send.value in left and send.offset == offset]
            has_left = bool(sent) and min(sent) > _ended(twin, members)
            yield ("consumer-loss", "note" if has_left else "violation", offset, name)
        elif offset < first and reset:
            written = [send.done for send in twin.sends if send.value in left]
            older = joined and written and all(done < min(joined) for done in written)
            yield ("consumer-loss", "permitted" if older else "violation", offset, name)


def _is_within_poll(polls: list[tuple[Op, Read]], offset: int) -> bool:
    """Did one poll return records at the offset, or before and behind it?"""
    returned: dict[str, list[int]] = {}
    for op, read in polls:
        returned.setdefault(op.id, []).append(read.offset)
    return any(min(offsets) <= offset <= max(offsets) for offsets in returned.values())


def _lacks_first_lines(twin: Twin, members: list[str], polls: list[tuple[Op, Read]]) -> bool:
    """Has a member polled before it joined, although another one recorded that it joined?"""
    joined = {
        member: min((op.done for op in twin.ops if op.process == member and _joins(op)), default=FOREVER)
        for member in members
    }
    late = {
        op.process for op, _ in polls if joined[op.process] > min(o.done for o, _ in polls if o.process == op.process)
    }
    return bool(late) and any(time < FOREVER for member, time in joined.items() if member not in late)


def _ended(twin: Twin, members: list[str]) -> int:
    """When the last member had left or crashed; FOREVER if one has not, or recorded nothing of its own."""
    kinds = ("assign", "seek", "commit", "subscribe", "crash", "txn")
    ends = []
    for member in members:
        own = [op for op in twin.ops if op.process == member and op.f in kinds]
        own = [op for op in own if not op.event.get("revoked") or not op.event["offsets"] or _here(op)]
        last = max(own, key=lambda op: op.done, default=None)
        has_left = last is not None and (last.f == "crash" or last.event.get("revoked"))
        ends.append(last.done if last is not None and has_left else FOREVER)
    return max(ends)


def _handled_in_doubt(twin: Twin, members: list[str], polls: list[tuple[Op, Read]]) -> Iterator[int]:
    """The offsets that members polled and a transaction without an outcome commits: surely handled, or unknown."""
    known = [*_committed(twin, members), *_assigned(twin, members)]
    for op in twin.ops:
        until = _commits_of(op) if op.process in members and op.f == "txn" and op.outcome == "info" else None
        if until is None:
            continue
        before = sorted((other.done, offset) for other, offset in known if other.done < op.begun)
        since = before[-1][1] if before else 0
        yield from (read.offset for poll, read in polls if poll.done <= op.done and since <= read.offset < until)


def _is_committing_producer(twin: Twin, process: str) -> bool:
    """Does it commit in transactions, poll nothing, and have no group.id? Then its group is not known."""
    commits = [op for op, _ in _committed(twin, [process]) if op.f == "txn"]
    return bool(commits) and not _name(twin, process) and not any(read.process == process for read in twin.reads)


def _handled_by_any(twin: Twin) -> set[tuple[int | None, str | None]]:
    """The records that any process handled, or polled if no process recorded `handle`."""
    handles = [op for op in twin.ops if op.f == "handle" and op.outcome != "fail"]
    if any(op.f == "handle" for op in twin.ops):
        return {(record["offset"], record["value"]) for op in handles for record in op.event["records"]}
    polls = [op for op in twin.ops if op.f != "txn" or op.outcome != "fail"]
    return {(read.offset, read.value) for op in polls for read in reads_of(op)}


def _is_final(twin: Twin, read: Read) -> bool:
    return bool(twin.final) and read.process == "final" and read.done >= twin.healed


def _joins(op: Op) -> bool:
    return op.f == "subscribe" or (op.f == "assign" and not op.event.get("revoked"))


def _assigned(twin: Twin, members: list[str]) -> list[tuple[Op, int]]:
    """Offsets from which the group assigned the partition: they were committed."""
    ops = [op for op in twin.ops if op.process in members and op.outcome == "ok" and op.event.get("group")]
    return [(op, offset) for op in ops for offset, _ in places(op, "assign")]


def _regressions(twin: Twin, members: list[str]) -> Iterator[Breach]:
    commits = sorted([*_committed(twin, members), *_assigned(twin, members)], key=lambda each: each[0].done)
    for op, offset in commits:
        before = [(other, more) for other, more in commits if other.done < op.begun]
        if not before or before[-1][1] <= offset:
            continue
        previous, more = before[-1]
        if op.f == "assign" and previous.f == "txn":
            continue
        if _is_committing_producer(twin, op.process):
            continue
        may_be_sent = any(
            move.process in members
            and move.outcome != "fail"
            and not move.event.get("group")
            and previous.begun <= move.done <= op.done
            and any(to <= offset for to, _ in (*places(move, "assign"), *places(move, "seek")))
            for move in twin.ops
        )
        if not may_be_sent:
            yield ("commit-regression", "violation", offset, more - 1)


def _handled_twice(twin: Twin, members: list[str]) -> Iterator[Breach]:
    """A note from the first to the last record that two committed transactions polled and committed."""
    handled = []
    for op in (op for op in twin.ops if (op.f, op.outcome) == ("txn", "ok") and op.process in members):
        until = max([step["offsets"][0]["offset"] for step in op.event["ops"] if step["f"] == "commit"] + [-1])
        handled += list({(read.offset, read.value) for read in reads_of(op) if read.offset < until})
    twice = [record[0] for record in handled if handled.count(record) > 1]
    if twice:
        yield ("commit-regression", "note", min(twice), max(twice))


def _beyond_end(twin: Twin, members: list[str]) -> Iterator[Breach]:
    """The last commit of the group that a log end, read after it, contradicts."""
    commits = _committed(twin, members)
    ends = [(op.begun, op.done, end) for op, end in twin.log_ends if not _refuted(twin, op, end)]
    final, transactional = twin.final, any(send.txn for send in twin.sends)
    reads = [read for read in twin.reads if read.process == "final" and read.done >= twin.healed]
    moves = [op for op in twin.ops if op.process == "final" and (places(op, "assign") or places(op, "seek"))]
    unsure = any(op.f == "poll" and op.outcome == "info" and op.process == "final" for op in twin.ops)
    if final and final["complete"] and reads and not transactional and not unsure:
        known = [entry.offset + 1 for entry in (*twin.sends, *twin.reads) if entry.offset is not None]
        beyond = max([*known, *(end for _, end, _ in twin.ends)]) > final["end"]
        behind = [send for send in twin.acked if (twin.offset_of(send.value) or -1) >= final["end"]]
        if not beyond or all(is_gone(twin, send) for send in behind):
            begun = max(op.done for op in moves) if moves else min(read.done for read in reads)
            ends.append((begun, final["until"], final["end"]))
    for op, offset in reversed(commits):
        least = [
            end
            for begun, done, end in ends
            if begun > op.done and end < offset
            # The group did not go back before the end was read.
            if not any(o.id != op.id and o.done >= op.begun and o.begun <= done and to <= end for o, to in commits)
        ]
        if least:
            yield ("commit-beyond-end", "violation", min(least), offset - 1)
            return


def _refuted(twin: Twin, answer: Op, end: int) -> bool:
    """Whether a record at or behind the end was known before the answer, and read after it or by the final reads."""
    for offset, values in twin.values_by_offset().items():
        for value in values if offset >= end else ():
            acked = [send.done for send in twin.acked if (send.offset, send.value) == (offset, value)]
            reads = [read for read in twin.reads if (read.offset, read.value) == (offset, value)]
            is_there = any(read.done > answer.done or _is_final(twin, read) for read in reads)
            if is_there and min(acked + [read.done for read in reads]) < answer.begun:
                return True
    return False
