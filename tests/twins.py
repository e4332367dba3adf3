"""Every rule once more, as naively as possible, written from the design and not from the code.

Lists, sets and loops over the events of one tiny history of partition x-0; nothing here is fast. A breach is a tuple
(rule, severity, ...); BREACHES in test_twins.py lists the other fields of each rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import twin_events
from notation import History
from twin_events import FOREVER, Op, Send, operations, places, position_after, positions_set_by, reads_of

Breach = tuple[Any, ...]


class Twin:
    """One history, and what each rule finds in it."""

    def __init__(self, history: History) -> None:
        self.config = history.config
        self.processes = self.config["processes"]
        without_acks = {process for process in self.processes if str(self.setting_of(process, "acks")) == "0"}
        self.ops = sorted(operations(history.events, without_acks), key=lambda op: op.done)
        self.sends = [send for op in sorted(self.ops, key=lambda op: op.begun) for send in self._sends(op)]
        self.reads = [read for op in self.ops for read in reads_of(op)]
        self.acked = [send for send in self.sends if send.acked]
        self.healed = max([time for op in self.ops if op.f in ("fault", "heal") for time in (op.begun, op.done)] + [0])
        self.ends = [(op, *answer) for op in self.ops if op.outcome == "ok" for answer in places(op, "end_offsets")]
        # With transactions, an end offset may be the last stable offset, unless the client is read_uncommitted.
        self.has_transactions = any(send.txn for send in self.sends)
        self.log_ends = [
            (op, offset)
            for op, offset, _ in sorted(self.ends, key=lambda end: end[0].begun)
            if not self.has_transactions or self.reads_uncommitted(op.process)
        ]
        self.possible_starts: list[tuple[int, int]] = []  # (a possible log start, the time since which it may hold)
        self.start, self.possible_start = self._log_starts()
        self.final = self._final()

    def setting_of(self, process: str, name: str) -> Any:
        return self.processes.get(process, {}).get(name)

    def lacks_idempotence(self, process: str) -> bool:
        idempotence = self.setting_of(process, "enable.idempotence")
        return idempotence is False if idempotence is not None else str(self.setting_of(process, "acks")) in ("0", "1")

    def reads_uncommitted(self, process: str) -> bool:
        return bool(self.setting_of(process, "isolation.level") == "read_uncommitted")

    def _sends(self, op: Op) -> Iterator[Send]:
        acks = str(self.setting_of(op.process, "acks") or "all")
        for step in op.event.get("ops", [op.event]) if op.f in ("send", "txn") else []:
            if step["f"] == "send" and step["value"] is not None:
                offset = None if acks == "0" else step.get("offset")  # no broker responded
                acked = op.outcome == "ok" and acks != "0"
                who = (op.process, op.outcome, op.begun, op.done, op.id)
                yield Send(step["value"], step.get("key"), offset, *who, acked, op.f == "txn")

    def _log_starts(self) -> tuple[int, int]:
        """The log start that is certain, and the greatest one that is possible."""
        certain: list[int] = []
        possible: list[int] = []
        reach = max([entry.offset + 1 for entry in (*self.sends, *self.reads) if entry.offset is not None] + [0])
        reach = max([reach, *(end for _, end, _ in self.ends)])
        starts = [(op, start, end) for op, end, start in self.ends if start is not None]
        for op in self.ops:
            fault = op.event.get("fault", {})
            if fault.get("kind") == "delete-records" and op.outcome != "fail":
                starts.append((op, fault["offsets"]["0"], reach))
        for op, start, end in starts:
            later = [r["offset"] for o in self.ops if o.begun > op.done for r in o.event.get("records", ())]
            refuted = start > end or any(offset < start for offset in later)
            (possible if refuted else certain).append(min(start, end))
            since = op.begun if op.f == "fault" else self._deleted(start, op.done)
            self.possible_starts.append((min(start, end), since))
        self.assumed = not certain and bool(self.config.get("final"))  # where the final reads begin
        if self.assumed:
            certain = [min(positions_set_by(self.ops, "final"), default=0)]
            self.possible_starts.append((certain[0], self._deleted(certain[0], FOREVER)))
        return max(certain, default=0), max([*certain, *possible], default=0)

    def _deleted(self, start: int, known: int) -> int:
        """When the first delete-records began that explains a log start known at a time; -1 if none does."""
        begun = [
            op.begun
            for op in self.ops
            if op.event.get("fault", {}).get("kind") == "delete-records" and op.outcome != "fail"
            if op.begun <= known and op.event["fault"]["offsets"]["0"] >= start
        ]
        return min(begun, default=-1)

    def _final(self) -> dict[str, Any] | None:
        """The final reads of the process of that name."""
        mine = [read for read in self.reads if read.process == "final" and read.done >= self.healed]
        assigned = positions_set_by(self.ops, "final")
        if not self.config.get("final") or not (mine or assigned):
            return None
        begin = max(self.start, min(assigned, default=self.start))
        top = max([read.offset + 1 for read in mine] or [begin])
        sure = [offset for op, offset in self.log_ends if op.begun >= self.healed]
        late = [offset for op, offset, _ in sorted(self.ends, key=lambda end: end[0].begun) if op.begun >= self.healed]
        moves = [op.done for op in self.ops if op.process == "final"]
        until = max([read.done for read in mine] or moves)
        first_hidden = (
            self._first_hidden(top, until) if not self.reads_uncommitted("final") or (late and not sure) else FOREVER
        )
        end = max(top, min((sure or late or [top])[-1], first_hidden))
        acked = [send.offset for send in self.acked if send.offset is not None]
        complete = not any(top <= offset < end or self.start <= offset < begin for offset in acked)
        return {
            "values": {read.value for read in mine},
            "begin": begin,
            "end": end if complete else top,
            "until": until,
            "requested": max(
                [op.begun for op, offset, _ in self.ends if op.begun >= self.healed and offset == end], default=None
            ),
            "complete": complete,
            "first_hidden": first_hidden,
        }

    def _first_hidden(self, top: int, until: int) -> int:
        """The first offset that a transaction may have hidden that was open when the final reads ended."""
        places = []
        for op in {send.op for send in self.sends if send.txn}:
            steps = [send for send in self.sends if send.op == op]
            # Kafka refuses transactions with acks=0: their end is not known, either.
            ended = steps[0].done if steps[0].acked or steps[0].outcome == "fail" else FOREVER
            passed = any(step.offset is not None and step.offset < top for step in steps)
            if ended >= until >= steps[0].begun and not passed:
                gap = next(o for o in range(top, FOREVER) if o not in [send.offset for send in self.acked])
                places += [gap if step.offset is None else step.offset for step in steps]
        return min(places, default=FOREVER)

    def offset_of(self, value: str) -> int | None:
        """The offset that the value is known to have: its acknowledgement's, else its first reader's."""
        sent = [send.offset for send in self.sends if send.value == value and send.offset is not None]
        read = sorted((read.done, read.offset) for read in self.reads if read.value == value)
        return (sent + [offset for _, offset in read] + [None])[0]

    def values_by_offset(self) -> dict[int, set[str]]:
        """Every value that an acknowledgement or a poll places at an offset."""
        held: dict[int, set[str]] = {}
        for entry in (*self.sends, *self.reads):
            if entry.offset is not None and entry.value is not None:
                held.setdefault(entry.offset, set()).add(entry.value)
        return held

    def legally_gone(self, send: Send) -> bool:
        offset = self.offset_of(send.value)
        below = offset is not None and (offset < self.start or twin_events.deleted_first(self, send) == "surely")
        return below or self.compacted(send.value)

    def maybe_compacted(self, value: str) -> bool:
        """Is it a tombstone of a topic without a recorded cleanup.policy, or perhaps the older record of its key?"""
        if self.compacts("compact") and not self.compacts():
            return value.startswith("tombstone@") or any(self._rivals(value))
        return not self.compacted(value) and any(not order for _, order in self._rivals(value))

    def compacted(self, value: str) -> bool:
        if self.compacts() and value.startswith("tombstone@") and not twin_events.is_outlived(self, value):
            return True
        rivals = list(self._rivals(value)) if self.compacts() else []
        if any(order for _, order in rivals):
            return True
        mine = [send for send in self.sends if send.value == value]
        read = {read.value for read in self.reads}
        return any((other.acked or other.value in read) and other.begun > mine[0].done for other, _ in rivals)

    def compactable_since(self, value: str) -> int:
        """The time since which compaction may have removed the value; FOREVER if it may not."""
        if value.startswith("tombstone@") and (self.compacted(value) or self.maybe_compacted(value)):
            return -1
        same = [send for send in self.sends if send.value == value or send in [one for one, _ in self._rivals(value)]]
        times = [
            other.begun if order else min(send.begun for send in same if send.outcome != "fail")
            for other, order in self._rivals(value)
        ]
        return min(times, default=FOREVER)

    def compacts(self, unset: str = "") -> bool:
        return "compact" in self.config["topics"]["x"].get("cleanup.policy", unset)

    def _rivals(self, value: str) -> Iterator[tuple[Send, bool]]:
        """Other sends of its key that may be newer, each with whether both offsets are known."""
        own = [one for one in self.sends if one.value == value and one.key and self.compacts("compact")]
        for send in own:
            for other in self.sends:
                if other.key == send.key and "fail" not in (send.outcome, other.outcome):
                    here, there = self.offset_of(value), self.offset_of(other.value)
                    known = here is not None and there is not None
                    before = (known and there <= here) or (other.acked and other.done < send.begun)  # type: ignore[operator]
                    if other.value != value and not before:
                        yield other, known

    def existing_below(self, read: twin_events.Read, time: int) -> set[int]:
        """Offsets with a record at a time, not lost later, that was sent before the higher record was known."""
        known = [one.done for one in (*self.reads, *self.acked) if (one.offset, one.value) == (read.offset, read.value)]
        return self.present_offsets(read.process, time, sent_by=min(known)) - self.vanished()

    def present_offsets(self, process: str, time: int, sent_by: int | None = None) -> set[int]:
        """Offsets with a record that this reader may see, and that nothing may have removed legally by a time.

        With `sent_by`, only records that were sent by then and not cut off.
        """
        found, cut_off = set(), twin_events.cut_off_records(self) if sent_by is not None else set()
        for offset, values in self.values_by_offset().items():
            for value in values:
                sent = [send for send in self.sends if (send.value, send.offset) == (value, offset)]
                since = [send.begun for send in sent] or twin_events.read_since(self, offset, value)
                there, began = sent_by is None or min(since) <= (sent_by if sent else time), since[0] if sent else -1
                moved = any(offset < start and max(at, began) <= time for start, at in self.possible_starts)
                present = twin_events.returned_after(self, value, offset, time) or self.compactable_since(value) > time
                there = there and (offset, value) not in cut_off and not moved
                if present and self.visible(offset, value, process) and there:
                    found.add(offset)
        return found

    def visible(self, offset: int, value: str, process: str) -> bool:
        """Whether this reader may see the value at the offset: acknowledged, or seen by others and not aborted."""
        sent = [send for send in self.sends if (send.value, send.offset) == (value, offset)]
        aborted = bool(sent) and all(send.outcome == "fail" for send in sent)
        mine = [read for read in self.reads if (read.value, read.offset) == (value, offset)]
        seen = any(not self.reads_uncommitted(read.process) for read in mine)
        if self.has_transactions and any(self.setting_of(r.process, "isolation.level") is None for r in self.reads):
            seen = seen and not any(send.value == value and send.txn and not send.acked for send in self.sends)
        return self.reads_uncommitted(process) or any(send.acked for send in sent) or (seen and not aborted)

    def vanished(self) -> set[int]:
        """Offsets without a known record at the end, above the last record that remained below a truncated one."""
        if not (truncated := twin_events.truncated_offsets(self)):
            return set()
        returned = {(read.offset, read.value) for read in self.reads if read.process == "final" and self.final}
        remaining = {offset for offset, _ in returned - twin_events.cut_off_records(self)}
        remaining |= {send.offset for send in self.acked if twin_events.remains(self, send)}
        last = max((offset for offset in remaining if offset is not None and offset < min(truncated)), default=-1)
        return {offset for offset in self.values_by_offset() if offset > last and offset not in remaining}

    def lost(self) -> set[str]:
        return {send.value for send in self.acked if self.is_lost(send) and not twin_events.is_unsure(self, send)}

    def is_lost(self, send: Send) -> bool:
        value, offset, final = send.value, self.offset_of(send.value), self.final
        reads = [read for read in self.reads if read.value == value]
        if offset is None or (final and value in final["values"]):
            return False
        is_displaced = twin_events.is_displaced(self, send)
        may_be_compacted = self.compacts() and any(True for _ in self._rivals(value)) and not is_displaced
        if twin_events.was_truncated(self, send) and not may_be_compacted:
            return not twin_events.deleted_first(self, send)
        if is_displaced and not self._is_removable(send, offset):
            return twin_events.replaced_since(self, send, expires=False) == FOREVER
        if self.legally_gone(send) or self._is_removable(send, offset) or self.maybe_compacted(value):
            return False
        last = max([send.done] + [read.done for read in reads])
        if final:
            passed = final["begin"] <= offset < final["end"]
            reached_the_end = bool(reads) and final["complete"] and last < final["until"]
            return bool(passed or (reached_the_end and final["begin"] <= offset < final["first_hidden"]))
        if reads:
            return False
        spans: dict[str, list[int]] = {}
        for read in self.reads:
            spans.setdefault(read.process, []).append(read.offset)
        return any(min(mine) < offset < max(mine) and offset not in mine for mine in spans.values())

    def breaches(self) -> Iterator[Breach]:
        yield from (("lost-write", "violation", value) for value in self.lost())
        yield from self._unseen()
        yield from self._identity()
        yield from self._visibility()
        yield from self._positions()
        yield from self._order()
        yield from self._ends()

    def _unseen(self) -> Iterator[Breach]:
        seen = {read.value for read in self.reads}
        for send in self.acked if self.final and self.final["complete"] else []:
            offset = self.offset_of(send.value)
            # Any move of the log start may have removed a record of unknown offset.
            gone = self.is_lost(send) or self.legally_gone(send) or self._is_removable(send, offset)
            first_hidden = self.final["first_hidden"]  # type: ignore[index]
            hidden = first_hidden < FOREVER if offset is None else offset >= first_hidden
            gone = gone or self.maybe_compacted(send.value) or hidden or twin_events.is_unsure(self, send)
            if send.value not in seen and not gone and not self._is_late(send):
                yield ("unseen", "violation", send.value)

    def _is_late(self, send: Send) -> bool:
        """Acknowledged after the final reads, or after they requested the log end, and beyond that."""
        final = self.final or {}
        beyond = send.offset is None or send.offset >= final["end"]
        requested = final["requested"]
        return send.done >= final["until"] or (beyond and requested is not None and send.done >= requested)

    def _is_removable(self, send: Send, offset: int | None) -> bool:
        moves = [op.done for op in self.ops if twin_events.deleted_below(op) > 0]
        moves += [op.done for op, _, start in self.ends if start]
        named = self.assumed and any(positions_set_by(self.ops, "final"))
        named = named or (offset is not None and self.final is not None and offset < self.final["begin"])
        moved = self.possible_start > (offset or 0) and (named or any(send.begun <= done for done in moves))
        return moved or twin_events.may_be_compacted_below(self, send)

    def _identity(self) -> Iterator[Breach]:
        places: dict[str, set[int]] = {}
        for offset, values in self.values_by_offset().items():
            if len(values) > 1:
                yield ("inconsistent-offsets", "violation", offset, *sorted(values))
            for value in values:
                places.setdefault(value, set()).add(offset)
        for value, offsets in places.items():
            senders = [send.process for send in self.sends if send.value == value]
            if len(offsets) > 1 and len(senders) < 2:
                excused = senders and self.lacks_idempotence(senders[0])
                yield ("duplicate", "permitted" if excused else "violation", value, min(offsets), max(offsets))

    def _visibility(self) -> Iterator[Breach]:
        for read in (read for read in self.reads if read.value is not None):
            sent = [send for send in self.sends if send.value == read.value]
            if not sent and self.sends:
                yield ("phantom-read", "violation", read.value, read.offset)
            if not sent:
                continue
            if all(send.outcome == "fail" for send in sent):
                excused = sent[0].txn and self.reads_uncommitted(read.process)
                if not sent[0].txn or self.setting_of(read.process, "isolation.level") is not None:
                    yield ("aborted-read", "permitted" if excused else "violation", read.value, read.offset)
            early = read.done < min(send.begun for send in sent)
            if early and not sent[0].txn:
                yield ("phantom-read", "violation", read.value, read.offset)
            own = read.op == sent[0].op and self.setting_of(read.process, "isolation.level") is not None
            if sent[0].txn and (early or own) and not self.reads_uncommitted(read.process):
                yield ("precommitted-read", "violation", read.value, read.offset)

    def _positions(self) -> Iterator[Breach]:
        for process in sorted({op.process for op in self.ops}):
            position, rebalanced, polled = None, False, 0
            for op in (op for op in self.ops if op.process == process):
                first = True
                for read in reads_of(op):
                    open_at_once = first and op.begun < polled  # so either may have come first
                    if position is not None and read.offset != position and not open_at_once:
                        severity = "permitted" if rebalanced else "violation"
                        prefix = "" if first else "int-"
                        if read.offset < position:
                            yield (f"{prefix}nonmonotonic-poll", severity, process, read.offset, position - 1)
                        skipped = sorted(o for o in self.existing_below(read, op.done) if position <= o < read.offset)
                        if skipped:
                            yield (f"{prefix}poll-skip", severity, process, skipped[0], skipped[-1])
                    position, rebalanced, first, polled = read.offset + 1, False, False, op.done
                position, rebalanced = position_after(op, position, rebalanced)

    def _order(self) -> Iterator[Breach]:
        placed = [send for send in self.acked if send.offset is not None]
        for process in sorted({send.process for send in placed}):
            mine = [send for send in placed if send.process == process]
            for one, two in pairwise(mine):
                inside = one.op == two.op
                excused = self.lacks_idempotence(process)
                crashed = any(
                    op.f == "crash" and op.process == process and one.begun < op.done <= two.begun for op in self.ops
                )
                if two.offset < one.offset and (inside or not crashed):  # type: ignore[operator]
                    rule = "int-nonmonotonic-send" if inside else "nonmonotonic-send"
                    yield (rule, "permitted" if excused else "violation", one.value, two.value)
                own = {send.offset for send in self.sends if send.op == one.op}
                if inside and [o for o in self.present_offsets("", FOREVER - 1) - own if one.offset < o < two.offset]:  # type: ignore[operator]
                    yield ("int-send-skip", "note", one.value, two.value)
        for later, offset in [*((send, send.offset) for send in placed), *self.found()]:
            known = [*self.known(), *((op.done, end) for op, end, _ in self.ends)]
            if any(time < later.begun and other > offset for time, other, *_ in known):  # type: ignore[operator]
                yield ("realtime-order", "violation", later.value, offset)

    def known(self) -> list[tuple[int, int, str]]:
        """The time when an offset was known to be held: acknowledged, or read after it was sent."""
        sent = {(send.value, send.offset): send.begun for send in reversed(self.sends)}
        valued = [r for r in self.reads if r.value is not None and r.done >= sent.get((r.value, r.offset), 0)]
        records = [*valued, *(send for send in self.acked if send.offset is not None)]
        return [(record.done, record.offset, record.value) for record in records]

    def found(self) -> Iterator[tuple[Send, int]]:
        """Sends of values sent once, with an offset that only reads show."""
        everywhere = {(send.value, send.offset) for send in self.sends}
        for send in self.sends:
            once = [other.value for other in self.sends].count(send.value) == 1
            if once and send.offset is None and send.outcome != "fail":
                for offset in {read.offset for read in self.reads if read.value == send.value}:
                    first = min(read.done for read in self.reads if (read.value, read.offset) == (send.value, offset))
                    if first >= send.begun and (send.value, offset) not in everywhere:
                        yield send, offset

    def _ends(self) -> Iterator[Breach]:
        for op, end in self.log_ends:
            before = [offset for time, offset, _ in self.known() if time < op.begun]
            before += [earlier - 1 for other, earlier, _ in self.ends if other.done < op.begun]
            if max(before, default=-1) >= end:
                yield ("stale-end-offset", "violation", end, max(before))
