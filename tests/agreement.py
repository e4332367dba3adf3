"""The rules against linearizability, on random tiny histories of one topic-partition.

    python tests/agreement.py [COUNT [SEED]]

A history is simulated on a log, half of them with something changed afterwards, and judged twice: by the rules, and
by the engine with the model append-log. For the model, a poll reads the records from the consumer's position on, and
shows that the offsets that it skips are empty. The final reads also find nothing after their last record, as the format
promises. All other offsets (markers, records of other topics) are HOLES: appends of unknown outcome, added to the
history.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from logjudge.analysis.engines.local import judge_run
from logjudge.histories.bundle import open_run
from logjudge.models.append_log import APPEND_LOG
from logjudge.models.operations import Action, Operation
from logjudge.models.porcupine import check_operations
from notation import History, parse

HOLE = "hole"


def _step(state: tuple[Any, ...], action: Action) -> tuple[Any, ...] | None:
    """The log after the action; `rest` finds nothing but holes from an offset on."""
    if action.f == "rest":
        return state if set(state[action.value :]) <= {HOLE} else None
    return APPEND_LOG.step(state, action)


LOG = replace(APPEND_LOG, step=_step, functions=(*APPEND_LOG.functions, "rest"))
# A finding of one of these proves that the history is not linearizable, and where it is not, one of them finds it.
IMPLY = {
    *("lost-write", "unseen", "inconsistent-offsets", "duplicate", "aborted-read", "phantom-read"),
    *("poll-skip", "int-poll-skip", "realtime-order", "stale-end-offset"),
}
# Guarantees of a log to each client beyond linearizability: these rules may find breaches in linearizable histories.
SESSION = {"nonmonotonic-poll", "int-nonmonotonic-poll", "nonmonotonic-send"}

Record = tuple[str, int]


@dataclass(frozen=True)
class Op:
    """One operation of a history; its times are of no unit."""

    process: str
    f: str  # send, poll or end
    start: float
    end: float
    outcome: str = "ok"
    value: str = ""
    offset: int | None = None  # of a send, or the result of end_offsets
    records: tuple[Record, ...] = field(default=())

    def completion(self) -> str:
        """Its result, in the language of notation.py."""
        if self.f == "poll":
            return "<" + ",".join(f"{value}@{offset}" for value, offset in self.records)
        if self.f == "end":
            return f"end={self.offset}"
        ending = {"info": "~", "fail": "!", "ok": "@?" if self.offset is None else f"@{self.offset}"}[self.outcome]
        return self.value + ending

    def invocation(self) -> str:
        return {"poll": "<", "end": "end"}.get(self.f, self.value)


class Judged(NamedTuple):
    text: str
    linearizable: bool  # with HOLES
    dense: bool  # without them
    visible: bool  # with HOLES, but without what the rules are blind to
    rules: set[str]  # that found a violation


def random_ops(rng: Random) -> list[Op]:
    """A history in which each operation takes effect at a point of its interval."""
    points: list[tuple[float, float, float, str, str]] = []
    for process in "pqcde":
        at = rng.random()
        for _ in range(rng.randint(0, 3)):
            start, point, end = at, at + rng.random(), at + 1 + rng.random()
            f = "send" if process in "pq" else "end" if process == "e" else "poll"
            points.append((point, start, end, process, f))
            # A producer may have several sends outstanding; a consumer's polls do not overlap.
            at = start + 2 * rng.random() if f == "send" else end + rng.random()
    log: list[str] = []
    positions: dict[str, int] = {}
    ops: list[Op] = []
    for _, start, end, process, f in sorted(points):
        if rng.random() < 0.08:
            log.append(HOLE)
        if f == "send":
            outcome = rng.choice(("ok", "ok", "ok", "ok", "info", "fail"))
            value, offset = f"v{len(ops)}", None
            if outcome == "ok" or (outcome == "info" and rng.random() < 0.6):
                log.append(value)
                offset = len(log) - 1 if outcome == "ok" and rng.random() < 0.9 else None
            ops.append(Op(process, f, start, end, outcome, value, offset))
        elif f == "end":
            ops.append(Op(process, f, start, end, offset=len(log)))
        else:
            ops.append(_poll(process, start, end, log, positions, rng.randint(1, 3)))
    if rng.random() < 0.5:
        start = max((op.end for op in ops), default=0.0) - rng.random()
        for most in (rng.randint(1, 2), len(log)):
            ops.append(_poll("final", start, start + 1, log, positions, most))
            start += 1 + rng.random()
    return sorted(ops, key=lambda op: op.start)


def _poll(process: str, start: float, end: float, log: list[str], positions: dict[str, int], most: int) -> Op:
    begin = positions.get(process, 0)
    records = [(log[offset], offset) for offset in range(begin, len(log)) if log[offset] != HOLE][:most]
    if records:
        positions[process] = records[-1][1] + 1
    return Op(process, "poll", start, end, records=tuple(records))


def changed(ops: list[Op], rng: Random) -> list[Op]:
    """The same with one operation changed: what it answered, how it ended, or when."""
    if not ops:
        return ops
    at = rng.randrange(len(ops))
    op = ops[at]
    if rng.random() < 0.3:
        later = 3 * rng.random() - 1.5
        moved = replace(op, start=op.start + later, end=op.end + later * rng.random())
        others = [other for other in ops if other is not op and other.process == op.process]
        apart = all(moved.end < other.start or other.end < moved.start for other in others)
        op = moved if moved.start < moved.end and (op.f == "send" or apart) else op
    elif op.f == "poll" and op.records:
        records, which = list(op.records), rng.randrange(len(op.records))
        offset = records[which][1]
        what = rng.randrange(4)
        if what == 0:
            del records[which]
        elif what == 1:
            records[which] = rng.choice([*[each.value for each in ops if each.f == "send"], "v99"]), offset
        elif what == 2:
            shift = rng.choice((-1, 1))
            records = [(value, max(0, offset + shift)) for value, offset in records]
        else:
            rng.shuffle(records)
        op = replace(op, records=tuple(records))
    elif op.f == "end" or op.offset is not None:
        assert op.offset is not None
        op = replace(op, offset=max(0, op.offset + rng.choice((-2, -1, 1, 2))))
    elif op.f == "send":
        op = replace(op, outcome=rng.choice(("ok", "info", "fail")), offset=rng.choice((None, rng.randrange(4))))
    return sorted([*ops[:at], op, *ops[at + 1 :]], key=lambda each: each.start)


def in_notation(ops: list[Op]) -> str:
    tokens = [(op.start, f"{op.process}:{op.invocation()}..") for op in ops]
    tokens += [(op.end, f"{op.process}:..{op.completion()}") for op in ops]
    # The final reads record their first offset, so that empty ones are seen.
    tokens += [(op.start, "final:assign=0") for op in [op for op in ops if op.process == "final"][:1]]
    return " ".join(token for _, token in sorted(tokens))


def _reads(op: Op, position: int | None) -> tuple[list[Action], int | None]:
    """The result of a poll as reads of the log, and the consumer's position after it."""
    actions: list[Action] = []
    begin, found = position, []
    for value, offset in op.records:
        if position is None or offset < position:
            if found:
                actions.append(Action("read", begin, tuple(found)))
            begin, found, position = offset, [], offset
        found += [HOLE] * (offset - position) + [value]
        position = offset + 1
    if found:
        actions.append(Action("read", begin, tuple(found)))
    return actions, position


def operations(ops: list[Op], holes: bool = True, blind: bool = True) -> list[Operation]:
    """The history as the model has it, with HOLES, and with what the rules are blind to, if they are wanted."""
    made = []
    positions: dict[str, int | None] = {"final": 0}
    for op in sorted(ops, key=lambda op: op.end):
        if op.f == "poll":
            actions, positions[op.process] = _reads(op, positions.get(op.process))
            made += [Operation(action, op.start, op.end, op.process) for action in actions]
        elif op.f == "end":
            made.append(Operation(Action("end", None, op.offset), op.start, op.end, op.process))
        elif op.outcome != "fail":
            known = op.outcome == "ok" and op.offset is not None
            action = Action("append", op.value, op.offset) if known else Action("append", op.value)
            done = op.outcome == "ok" and (known or blind)
            made.append(Operation(action, op.start, op.end if done else None, op.process))
    final = [op for op in ops if op.process == "final"]
    if final and blind:
        last = max(final, key=lambda op: op.end)
        made.append(Operation(Action("rest", positions["final"]), last.start, last.end, "final"))
    elif final:
        # The rules see no polls without records, so that the final reads last until their last record. They take
        # them for incomplete where they stop before an end offset, and miss nothing at the log's end that others
        # read later, or that was not acknowledged.
        found = [op for op in final if op.records]
        last = max(found, key=lambda op: op.end) if found else replace(final[0], end=final[0].start)
        acknowledged = {op.value for op in ops if op.outcome == "ok"}
        ends = [op.offset or 0 for op in ops if op.f == "end"]
        for op in ops:
            ends += [at + 1 for value, at in op.records if value not in acknowledged or op.end > last.end]
        if (positions["final"] or 0) >= max(ends, default=0):
            made.append(Operation(Action("rest", positions["final"]), last.start, last.end, "final"))
    if holes:
        offsets = [offset for op in ops for offset in (op.offset or 0, *(offset for _, offset in op.records))]
        made += [Operation(Action("append", HOLE), float("-inf")) for _ in range(max(offsets, default=0) + 1)]
    return made


def judge_all(histories: list[list[Op]]) -> Iterator[Judged]:
    """Judges histories, each a topic of one run, since a run costs more to open than a topic to judge."""
    texts = [in_notation(ops) for ops in histories]
    parsed = [parse(text, f"t{number}", f"t{number}.") for number, text in enumerate(texts)]
    config: dict[str, Any] = {"format": 1, "topics": {}, "processes": {}, "final": True}
    for one in parsed:
        for name in ("topics", "processes"):
            config[name] |= one.config[name]
    run = History([event for one in parsed for event in one.events], config)
    with tempfile.TemporaryDirectory() as folder:
        findings = judge_run(open_run(run.write(Path(folder)))).findings()
    broken: dict[str, set[str]] = {}
    for finding in findings.select("topic", "rule", "severity").iter_rows(named=True):
        if finding["severity"] == "violation":
            broken.setdefault(finding["topic"], set()).add(finding["rule"])
    for number, (text, ops) in enumerate(zip(texts, histories, strict=True)):
        modelled = (operations(ops), operations(ops, holes=False), operations(ops, blind=False))
        verdicts = [check_operations(LOG, each).verdict == "ok" for each in modelled]
        yield Judged(text, *verdicts, broken.get(f"t{number}", set()))


def random_histories(rng: Random, count: int) -> list[list[Op]]:
    histories = []
    for _ in range(count):
        ops = random_ops(rng)
        for _ in range(rng.choice((0, 1, 1, 2))):
            ops = changed(ops, rng)
        histories.append(ops)
    return histories


def disagreement(judged: Judged) -> str | None:
    """The disagreement of rules and model in one history; None if they agree."""
    implied = judged.rules & IMPLY
    if judged.linearizable and implied:
        return f"linearizable, but {', '.join(sorted(implied))}: {judged.text}"
    # The rules are weaker where an acknowledgement has no offset, and at the log's end (see `operations`).
    if not judged.visible and not implied:
        return f"not linearizable, but {', '.join(sorted(judged.rules)) or 'nothing'}: {judged.text}"
    return None


def main() -> None:
    count, seed = [*map(int, sys.argv[1:]), *(2000, 1)[len(sys.argv) - 1 :]]
    rng = Random(seed)
    disagreements = broken = 0
    for start in range(0, count, 500):
        for judged in judge_all(random_histories(rng, min(500, count - start))):
            broken += not judged.linearizable
            wrong = disagreement(judged)
            if wrong:
                disagreements += 1
                print(wrong)
    print(f"{count} histories, {broken} not linearizable, {disagreements} disagreements")


if __name__ == "__main__":
    main()
