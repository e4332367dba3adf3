"""Jepsen's rules once more, naively, from data/jepsen/README.md; and tiny random histories to judge.

An operation is a dict: index, process, type, f, and of data operations `mops`, a list of ("send", key, offset,
value) and ("poll", {key: [(offset, value), …]}); of assign and subscribe `keys`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

Op = dict[str, Any]
Breach = tuple[Any, ...]


def sends(op: Op, key: str) -> list[tuple[int | None, str]]:
    mops = op.get("mops", []) if op["f"] in ("send", "txn") else []
    return [(mop[2], mop[3]) for mop in mops if mop[0] == "send" and mop[1] == key]


def polls(op: Op, key: str) -> list[tuple[int | None, str]]:
    mops = op.get("mops", []) if op["f"] in ("poll", "txn") else []
    return [pair for mop in mops if mop[0] == "poll" for pair in mop[1].get(key, [])]


def breaches(ops: list[Op], keys: str) -> Iterator[Breach]:
    """The breaches of completed operations, which are in the order of completion."""
    read_ok = {key: {value for op in ops if op["type"] == "ok" for _, value in polls(op, key)} for key in keys}
    seen = [op for op in ops if any(value in read_ok[key] for key in keys for _, value in sends(op, key))]
    committed = [op for op in ops if op["type"] == "ok" or (op["type"] == "info" and op in seen)]
    for key in keys:
        yield from _of_key(ops, committed, key, read_ok[key])
    for op in ops:
        own = {(key, value) for key in keys for _, value in sends(op, key)}
        if own & {(key, value) for key in keys for _, value in polls(op, key)}:
            yield ("precommitted-read", op["index"])


def _of_key(ops: list[Op], committed: list[Op], key: str, read_ok: set[str]) -> Iterator[Breach]:
    log: dict[int, set[str]] = {}
    for offset, value in [p for op in ops for p in polls(op, key)] + [s for op in committed for s in sends(op, key)]:
        if offset is not None:
            log.setdefault(offset, set()).add(value)
    for offset, values in log.items():
        if len(values) > 1:
            yield ("inconsistent-offsets", key, offset, *sorted(values))
    for value in sorted({value for values in log.values() for value in values}):
        places = [offset for offset, values in log.items() if value in values]
        if len(places) > 1:
            yield ("duplicate", key, value, min(places), max(places))
    failed = {value for op in ops if op["type"] == "fail" for _, value in sends(op, key)}
    yield from (("aborted-read", key, value) for value in failed & read_ok)
    acknowledged = {value for op in ops if op["type"] == "ok" for _, value in sends(op, key)}
    yield from (("unseen", key, value) for value in acknowledged - read_ok)
    if all(len(values) == 1 for values in log.values()):
        yield from _by_index(ops, committed, key, read_ok, [min(log[offset]) for offset in sorted(log)])


def _by_index(ops: list[Op], committed: list[Op], key: str, read_ok: set[str], log: list[str]) -> Iterator[Breach]:
    first = {value: place for place, value in reversed(list(enumerate(log)))}
    last = {value: place for place, value in enumerate(log)}
    bound = max([first[value] for value in read_ok if value in first], default=-1)
    written = {value for op in committed for _, value in sends(op, key)}
    yield from (("lost-write", key, value) for value in written - read_ok if last.get(value, bound + 1) <= bound)

    def step(one: str, two: str) -> int:
        return last[two] - last[one] if one in last and two in last else 1

    for op in ops:
        polled = [] if key in op.get("rebalanced", []) else [value for _, value in polls(op, key)]
        for rule, values in (("poll", polled), ("send", [value for _, value in sends(op, key)])):
            for one, two in pairwise(values):
                if step(one, two) > 1:
                    yield (f"int-{rule}-skip", key, one, two, op["index"])
                if step(one, two) < 1:
                    yield (f"int-nonmonotonic-{rule}", key, one, two, op["index"])
    subscribed = any(op["f"] == "subscribe" for op in ops)
    for process in {op["process"] for op in ops}:
        polled_last = sent_last = None
        for op in (op for op in ops if op["process"] == process):
            if op["f"] in ("assign", "subscribe"):
                if op["type"] != "fail" and key not in op["keys"]:
                    polled_last = sent_last = None
                continue
            got, gave = [value for _, value in polls(op, key)], [value for _, value in sends(op, key)]
            if got and polled_last:
                severity = "permitted" if subscribed else "violation"
                if step(polled_last[0], got[0]) > 1:
                    yield ("poll-skip", severity, key, polled_last[1], op["index"])
                if step(polled_last[0], got[0]) < 1:
                    yield ("nonmonotonic-poll", severity, key, polled_last[1], op["index"])
            if op["type"] == "ok" and any(key in mop[1] for mop in op.get("mops", []) if mop[0] == "poll"):
                polled_last = (got[-1], op["index"]) if got else None
            if gave and op["type"] != "fail":
                if sent_last and step(sent_last[0], gave[0]) < 1:
                    yield ("nonmonotonic-send", key, sent_last[1], op["index"])
                sent_last = (gave[-1], op["index"])


def random_history(random: Random, wrong: int) -> tuple[list[Op], str]:
    """Completed operations, and the whole history as EDN."""
    log: dict[str, list[str]] = {"x": [], "y": []}
    at: dict[tuple[int, str], int] = {}
    ops: list[Op] = []
    lines: list[str] = []
    count = 0
    groups = random.random() < 0.4

    def slip() -> bool:
        return random.randrange(100) < wrong

    for _ in range(random.randint(3, 14)):
        process, f = random.randrange(3), random.choice(("send", "poll", "poll", "txn", "txn", "move"))
        kind = random.choice(("ok", "ok", "ok", "ok", "info", "fail"))
        op: Op = {"process": process, "type": kind, "f": f}
        if f == "move":
            op |= {"f": "subscribe" if groups else "assign", "keys": random.choice(["x", "y", "xy"])}
            for key in "xy":
                at[process, key] = random.randint(0, len(log[key]))
        mops: list[Any] = []
        for _ in range(random.randint(1, 3) if f != "move" else 0):
            key = random.choice("xxy")
            if f == "send" or (f == "txn" and random.random() < 0.5):
                count += 1
                if kind != "fail" or slip():
                    log[key].append(str(count))
                # Markers take every other offset, so a wrong offset is mostly one that no other record has.
                offset = max(2 * len(log[key]) - 2 + (random.choice((-3, -1, 3)) if slip() else 0), 0)
                if slip() and log[key]:
                    log[key].pop()
                mops.append(("send", key, offset if kind == "ok" and random.random() < 0.9 else None, str(count)))
            else:
                begin = max(at.get((process, key), 0) + (random.choice((-1, 1, 2)) if slip() else 0), 0)
                pairs = [(2 * o, v) for o, v in enumerate(log[key][: begin + 3]) if o >= begin and not slip()]
                at[process, key] = begin + len(pairs)
                if slip():
                    random.shuffle(pairs)
                mops.append(("poll", {key: pairs} if pairs or random.random() < 0.3 else {}))
        if kind == "ok" and mops and random.random() < 0.1:
            op["rebalanced"] = [random.choice("xy")]
        op |= {"mops": mops, "index": len(lines) + 1} if f != "move" else {"index": len(lines) + 1}
        lines += [_edn(op, len(lines), "invoke"), _edn(op, len(lines) + 1, kind)]
        ops.append(op)
    return ops, "\n".join(lines) + "\n"


def _edn(op: Op, index: int, kind: str) -> str:
    is_invocation = kind == "invoke"
    if "keys" in op:
        value = "[" + " ".join(f":{key}" for key in op["keys"]) + "]"
    else:
        value = "[" + " ".join(_mop(mop, is_invocation) for mop in op["mops"]) + "]"
    log = f", :rebalance-log [{{:keys [:{op['rebalanced'][0]}]}}]" if "rebalanced" in op and not is_invocation else ""
    head = f":index {index}, :time {index}, :type :{kind}, :process {op['process']}, :f :{op['f']}"
    return f"{{{head}, :value {value}{log}}}"


def _mop(mop: Any, is_invocation: bool) -> str:
    if mop[0] == "send":
        return (
            f"[:send :{mop[1]} {mop[3]}]"
            if is_invocation or mop[2] is None
            else f"[:send :{mop[1]} [{mop[2]} {mop[3]}]]"
        )
    polled = ", ".join(f":{key} [" + " ".join(f"[{o} {v}]" for o, v in pairs) + "]" for key, pairs in mop[1].items())
    return "[:poll]" if is_invocation else f"[:poll {{{polled}}}]"
