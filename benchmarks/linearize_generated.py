"""Compares the linearizability engine with Go Porcupine on generated histories of many classes, in one run.

    python benchmarks/linearize_generated.py [--count N] [--seed N] [--seconds N] [--kinds N] [--rows FILE]
        [--lengths N ...] [--objects NAME ...] [--clients N ...]

A class is an object, a number of clients, of keys, and a fault or none; its histories have few or unique values, and
outcomes that are all known or not. COUNT histories of each of these kinds are generated, the kinds in random order.
Prints each class's ratio of sums of CPU seconds of the search alone, the sums, and the histories whose verdicts differ
or that Go alone decides. Histories that neither decides are not in the sums. SECONDS limits a search of Go. This engine
has thrice the CPU time that Go took, or as much if Go does not decide. The least time of many searches counts, as the
load of the machine varies.

A history has one of LENGTHS operations. --kinds ends a run after so many kinds. --rows appends the results to FILE; the
next call checks the kinds that FILE lacks, and the report covers all rows in FILE. Ctrl-C loses only the kind in
progress.
"""

from __future__ import annotations

import argparse
import bisect
import heapq
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import logjudge.models.porcupine.check as engine
import logjudge.models.porcupine.steps as steps
from linearize import build_peer
from logjudge.models.porcupine import UNKNOWN, Action, Operation, check_operations, warm_up
from logjudge.models.specifications import MODELS

UPDATES = {
    "register": ("write", "write", "cas"),
    "key-value": ("append", "append", "put"),
    "appends": ("append",),  # a map without puts
    "append-log": ("append",),
    "set": ("add", "add", "remove"),
    "queue": ("enqueue",),
    "stack": ("push",),
    "priority-queue": ("insert",),
}
READS = {
    "register": ("read",),
    "key-value": ("get",),
    "appends": ("get",),
    "append-log": ("read", "end"),
    "set": ("contains", "contains", "read"),
    "queue": ("dequeue",),
    "stack": ("pop",),
    "priority-queue": ("delete-min",),
}
MILLISECONDS = 10
# So that seconds and limits of this engine are of CPU.
engine.time = steps.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
FAULTS = ("none", "stale", "lost", "reordered", "duplicated")
SHAPES = ((1, 1), (4, 1), (8, 1), (8, 10), (50, 1), (100, 1000))  # clients, keys


class Class(NamedTuple):
    """The parameters that the histories of a class share."""

    name: str
    clients: int
    keys: int
    unique: bool
    lost: bool  # whether some outcomes are unknown
    fault: str

    @property
    def model(self) -> str:
        return "key-value" if self.name == "appends" else self.name


def classes() -> Iterator[Class]:
    for name in UPDATES:
        for clients, keys in SHAPES:
            for unique in (True, False):
                for fault in FAULTS:
                    for lost in (False, True):
                        yield Class(name, clients, keys, unique, lost, fault)


def apply(name: str, state: list[int], f: str, argument: Any, rng: Random) -> Any:
    """The result of an operation; applies it to the state as the model defines."""
    if f in ("write", "put"):
        state[:] = [argument]
    elif f == "cas":
        old, new = argument
        if state != [old]:
            return False
        state[:] = [new]
        return True
    elif f in ("append", "enqueue", "push", "insert"):
        bisect.insort(state, argument) if f == "insert" else state.append(argument)
        return len(state) - 1 if name == "append-log" else None
    elif f == "add" and argument not in state:
        state.append(argument)
    elif f == "remove" and argument in state:
        state.remove(argument)
    elif f == "contains":
        return argument in state
    elif f in ("dequeue", "delete-min", "pop"):
        return state.pop(-1 if f == "pop" else 0) if state else None
    elif f == "end":
        return len(state)
    elif name == "append-log":
        return tuple(state[argument : argument + rng.randrange(1, 9)])
    return tuple(state)


def corrupt(name: str, state: list[int], before: list[int], fault: str, rng: Random) -> bool:
    """Damage the state as a faulty system would, and return whether it changed. `before` is an earlier state."""
    healthy = list(state)
    recent = rng.randrange(max(0, len(state) - 5), len(state))
    if fault == "lost":
        del state[recent]
    elif name == "register" or (name == "set" and fault == "reordered"):
        state[:] = before  # an older update took effect after the last one
    elif fault == "reordered":
        first = 0 if name == "priority-queue" else -2
        state[first], state[first + 1] = state[first + 1], state[first]
    else:
        state.append(state[recent])
    return state != healthy


def generate(kind: Class, count: int, rng: Random) -> list[Operation]:
    """One history: each operation takes effect at a point of its interval; one fault in its second half."""
    free = [(rng.randrange(1000), client) for client in range(kind.clients)]
    points = []
    while len(points) < count:
        at, client = heapq.heappop(free)
        point = at + rng.randrange(1, 1000)
        end = point + rng.randrange(1, 1000)
        points.append((point, at, end, client))
        heapq.heappush(free, (end + rng.randrange(1, 500), client))
    states: dict[int, list[int]] = {}
    old: dict[int, list[int]] = {}
    operations = []
    faulty = kind.fault != "none"
    for number, (_, at, end, client) in enumerate(sorted(points)):
        key = rng.randrange(kind.keys)
        state = states.setdefault(key, [])
        f = rng.choice(rng.choice((UPDATES, READS))[kind.name])
        new = number if kind.unique else rng.randrange(5)
        argument: Any = None
        if f == "cas":
            argument = (state[0] if state and rng.random() < 0.5 else rng.randrange(5), new)
        elif f in ("remove", "contains"):
            argument = rng.choice(state) if state and rng.random() < 0.7 else new
        elif f in UPDATES[kind.name]:
            argument = new
        elif (kind.name, f) == ("append-log", "read"):
            argument = rng.randrange(len(state) + 1) if rng.random() < 0.5 else max(0, len(state) - 3)
        if faulty and number > count / 2 and len(state) > 1 - (kind.name == "register"):
            before = old.get(key, [])
            if kind.fault != "stale":
                faulty = not corrupt(kind.name, state, before, kind.fault, rng)
            elif f in READS[kind.name] and before != state:
                state, faulty = list(before), False
        if rng.random() < 0.1:
            old[key] = list(state)
        if kind.lost and rng.random() < 0.02:
            if rng.random() < 0.5:
                apply(kind.name, state, f, argument, rng)
            operations.append(Operation(Action(f, argument, UNKNOWN, key), at, None, client))
            continue
        result = apply(kind.name, state, f, argument, rng)
        if kind.name == "register" and f == "read":
            result = result[0] if result else None
        operations.append(Operation(Action(f, argument, result, key), at, end, client))
    return sorted(operations, key=lambda operation: operation.call)


def numbers(value: Any) -> str:
    """A value or a result as the Go program reads it."""
    if value is None:
        return ""
    return ",".join(str(int(each)) for each in (value if isinstance(value, tuple) else (value,)))


def write(path: Path, name: str, operations: list[Operation]) -> None:
    """Write a history for the Go program."""
    lines = [name]
    for (f, value, result, key), call, end, _ in operations:
        text = "?" if result is UNKNOWN else numbers(result)
        if name == "set" and isinstance(result, tuple):
            text = numbers(tuple(sorted(result)))
        if name == "register" and f == "read" and result is None:
            text = "nil"
        lines.append(f"{key} {f} {call} {-1 if end is None else end} {numbers(value)} {text}")
    path.write_text("\n".join(lines) + "\n")


def as_text(operations: list[Operation]) -> list[Operation]:
    """A key-value history with strings, as the Go program spells them."""

    def spell(value: Any) -> Any:
        if value is None or value is UNKNOWN:
            return value
        return "".join(f"x {each} y" for each in (value if isinstance(value, tuple) else (value,)))

    return [
        operation._replace(action=operation.action._replace(value=spell(operation.action.value), result=spell(result)))
        for operation in operations
        for result in [operation.action.result]
    ]


def here(name: str, operations: list[Operation], timeout: float) -> tuple[float, str]:
    """Seconds and verdict of this engine: as the Go program, the least of three searches or of 10 ms of them."""
    best, verdict = float("inf"), ""
    began, repeats = time.process_time(), 0
    while repeats < 3 or time.process_time() - began < MILLISECONDS / 1000:
        repeats += 1
        result = check_operations(MODELS[name], operations, timeout)
        best, verdict = min(best, result.seconds), result.verdict
        if result.seconds > 1:
            break
    return best, verdict


class Comparison:
    """The sums by class, and the counts of histories by who decides them."""

    def __init__(self) -> None:
        self.sums: dict[tuple[object, ...], list[float]] = {}  # by class: Go's seconds, and ours
        self.illegal: dict[tuple[str, str], list[bool]] = {}
        self.histories = self.neither = self.differ = self.undecided = self.here_alone = 0

    def add(self, kind: Class, place: int, go: dict[str, Any], seconds: float, verdict: str) -> None:
        """Count one history that both have checked: the one of this kind at `place`."""
        self.histories += 1
        if verdict == "unknown" == go["verdict"]:
            self.neither += 1
            return
        group = self.sums.setdefault((kind.name, kind.clients, kind.keys, kind.fault != "none"), [0.0, 0.0])
        group[0], group[1] = group[0] + go["cpu"], group[1] + seconds
        self.illegal.setdefault((kind.name, kind.fault), []).append(verdict == "illegal")
        self.here_alone += go["verdict"] == "unknown"
        if verdict == "unknown":
            self.undecided += 1
            print(f"Go alone decides ({go['verdict']}, {go['cpu']:.2f} s): {kind}, {place}", flush=True)
        elif go["verdict"] != "unknown" and verdict != go["verdict"]:
            self.differ += 1
            print(f"**{verdict} here, {go['verdict']} by Go: {kind}, {place}**", flush=True)

    def total(self) -> str:
        """A line: the sums of all classes, and the counts."""
        theirs, ours = (sum(group[side] for group in self.sums.values()) for side in (0, 1))
        ratio = ours / theirs if theirs else 0.0  # 0: no history is decided
        over = sum(group[1] > 3 * group[0] for group in self.sums.values())
        return (
            f"{self.histories} histories: Go {theirs:.2f} s, here {ours:.2f} s, ratio {ratio:.3f}; "
            f"{self.differ} verdicts differ; Go alone decides {self.undecided}, this engine {self.here_alone}, "
            f"neither {self.neither}; {over} of {len(self.sums)} classes above 3 x"
        )

    def report(self) -> None:
        """Print the worst classes, the totals, and the share of illegal histories by fault."""
        rows = sorted(((group[1] / group[0], *group, kind) for kind, group in self.sums.items()), reverse=True)
        print("\n| object, clients, keys, faulty | Go, ms | here, ms | ratio |\n|---|---:|---:|---:|")
        for ratio, theirs, ours, kind in rows[:25]:
            print(f"| {', '.join(map(str, kind))} | {theirs * 1e3:.2f} | {ours * 1e3:.2f} | {ratio:.2f} |")
        print(f"\n{self.total()}")
        shares = (
            f"{name} {fault} {sum(found) / len(found):.0%}" for (name, fault), found in sorted(self.illegal.items())
        )
        print("illegal: " + ", ".join(shares))


def histories(kind: Class, count: int, seed: int, lengths: tuple[int, ...]) -> list[list[Operation]]:
    """The histories of a kind that a run checks."""
    rng = Random(f"{seed} {kind}")
    return [generate(kind, rng.choice(lengths), rng) for _ in range(count)]


def spelled(kind: Class, operations: list[Operation]) -> list[Operation]:
    """The operations as this engine reads them."""
    return as_text(operations) if kind.model == "key-value" else operations


def compare(
    kind: Class, made: list[list[Operation]], seconds: int, binary: Path
) -> list[tuple[dict[str, Any], float, str]]:
    """Check histories of a kind with both. By history: Go's result, and seconds and verdict of this engine."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.ops" for number in range(len(made))]
        for path, operations in zip(paths, made, strict=True):
            write(path, kind.model, operations)
        command = [str(binary), str(MILLISECONDS), str(seconds), *map(str, paths)]
        outcomes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found = [outcomes[str(path)] for path in paths]
    limits = [go["cpu"] if go["verdict"] == "unknown" else max(0.1, 3 * go["cpu"]) for go in found]
    return [
        (go, *here(kind.model, spelled(kind, operations), limit))
        for go, operations, limit in zip(found, made, limits, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, default in (("--count", 5), ("--seed", 1), ("--seconds", 10), ("--kinds", 0)):
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--lengths", type=int, nargs="+", default=(100, 300, 1000))
    parser.add_argument("--objects", nargs="+", default=tuple(UPDATES), choices=tuple(UPDATES))
    parser.add_argument("--clients", type=int, nargs="+", default=tuple(clients for clients, _ in SHAPES))
    arguments = parser.parse_args()
    count, seed = arguments.count, arguments.seed
    kinds = [each for each in classes() if each.name in arguments.objects and each.clients in arguments.clients]
    Random(seed).shuffle(kinds)
    lines = arguments.rows.read_text().splitlines() if arguments.rows and arguments.rows.exists() else []
    rows = [(row["seed"], Class(*row["kind"]), row["found"]) for row in map(json.loads, lines)]
    known = {(row[0], row[1]) for row in rows}
    left = [kind for kind in kinds if (seed, kind) not in known][: arguments.kinds or None]
    binary = build_peer()
    warm_up()
    with suppress(KeyboardInterrupt):
        for number, kind in enumerate(left):
            made = histories(kind, count, seed, tuple(arguments.lengths))
            rows.append((seed, kind, compare(kind, made, arguments.seconds, binary)))
            if arguments.rows:
                with arguments.rows.open("a") as file:
                    file.write(json.dumps({"seed": seed, "kind": kind, "found": rows[-1][2]}) + "\n")
            print(f"{number + 1} of {len(left)} kinds", end="\r", file=sys.stderr, flush=True)
    comparison = Comparison()
    for _, kind, found in rows:
        for place, outcome in enumerate(found):
            comparison.add(kind, place, *outcome)
    comparison.report()


if __name__ == "__main__":
    main()
