"""The monitors against the search and against all permutations, on random tiny histories.

    python tests/monitor_agreement.py [COUNT [SEED [OBJECT ...]]]

Nearly all of them insert each value once. Each history is decided by the monitor, if it can, and by both searches. One
in twenty is also tried in every order, and the witness of one in a hundred has to fail whatever the others did.

Prints a row for each object: histories, those that the monitor decided, illegal ones of these, and how many of these
have each of `KINDS`, which papers leave out.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import numpy as np
from histories_of_operations import is_linearizable
from logjudge.analysis.linearizability.minimal import MAYBE, doubting_model
from logjudge.models.operations import UNKNOWN, Action, Operation
from logjudge.models.porcupine.encoding import encode
from logjudge.models.porcupine.history import number_actions
from logjudge.models.porcupine.layout import sort_by_part
from logjudge.models.porcupine.monitors import monitor_parts
from logjudge.models.porcupine.part_history import ILLEGAL, LINEARIZABLE, UNDECIDED
from logjudge.models.porcupine.quick_search import QuickSearch
from logjudge.models.porcupine.short_search import search_parts
from logjudge.models.porcupine.steps import Budget, Steps
from logjudge.models.specifications import MODELS

NAMES = ("register", "queue", "stack", "priority-queue", "append-log", "set", "lock", "key-value")
INSERT = {"register": "write", "queue": "enqueue", "stack": "push", "priority-queue": "insert", "append-log": "append"}
TAKE = {"register": "read", "queue": "dequeue", "stack": "pop", "priority-queue": "delete-min"}
INSERTS = {*INSERT.values(), "add", "acquire", "put"}
OF_VALUE = {"remove", "contains", "release"}  # their values are arguments
BATCH = 1000  # histories that are numbered and encoded together
KINDS = ("unmatched insert", "empty", "pending insert", "pending removal or read", "equal times")
LENGTHS = (0, 1, 2, 3, 5, 8)  # of an operation's interval


class Agreement(NamedTuple):
    """Counts of histories: tried, decided by the monitor, illegal; the decided ones by kind; the first difference."""

    tried: int
    decided: int
    illegal: int
    kinds: Counter[str]
    wrong: list[Operation] | None


def set_actions(values: list[int], rng: Random) -> list[Action]:
    """Adds, removes or reads of all, and questions for one value."""
    actions = [Action("add", value, None) for value in values]
    kind = rng.random()
    if kind < 0.6:
        actions += [Action("remove", value, None) for value in rng.sample(values, rng.randint(0, len(values)))]
    if kind > 0.4:
        found = values[:]
        for _ in range(rng.randint(0, 3)):
            some = found[: rng.randint(0, len(found))] if rng.random() < 0.8 else rng.sample(range(4), 2)
            actions.append(Action("read", None, rng.choice((frozenset(some), frozenset(some), UNKNOWN))))
    questions = rng.choices((*values, 3), k=rng.randint(0, 4))
    return actions + [Action("contains", value, rng.choice((True, False, UNKNOWN))) for value in questions]


def log_actions(values: list[int], rng: Random) -> list[Action]:
    """Appends with and without offsets, reads, and ends."""
    actions = []
    for place, value in enumerate(values):
        actions.append(Action("append", value, rng.choice((place, place, UNKNOWN, rng.randrange(4)))))
    for _ in range(rng.randint(0, 4)):
        start = rng.randrange(3)
        found = values if rng.random() < 0.9 else rng.sample(range(4), 4)
        read = Action("read", start, tuple(found[start : start + rng.randint(0, 2)]))
        actions.append(rng.choice((read, read, Action("end", None, rng.randrange(len(values) + 1)))))
    return actions


def random_lock(rng: Random) -> list[Operation]:
    """Owners that mostly do one operation at a time; one in ten histories is of a mutex without owners."""
    operations = []
    is_plain = rng.random() < 0.1
    for owner in (None,) * rng.randint(1, 3) if is_plain else range(rng.randint(1, 3)):
        time = rng.randrange(8)
        for number in range(rng.randint(1, 4)):
            f = ("acquire", "release")[number % 2 if rng.random() < 0.95 else 0]
            end = None if rng.random() < 0.06 else time + rng.choice(LENGTHS)
            operations.append(Operation(Action(f, owner, None), time, end, owner))
            time = time + rng.randint(0, 4) if end is None else end + rng.choice((0, 1, 1, 2, 5))
    return operations


def string_actions(values: list[int], rng: Random) -> list[Action]:
    """Appends and puts of letters, or appends alone that may repeat one; gets of contents that mostly begin alike.

    The key is new.
    """
    key = rng.getrandbits(32)
    has_puts = rng.random() < 0.4
    written = ["abcd"[value] for value in (values if has_puts else rng.choices(values, k=rng.randint(1, 5)))]
    updates = ("append", "append", "put") if has_puts else ("append",)
    actions = [Action(rng.choice(updates), value, None, key) for value in written]
    for _ in range(rng.randint(1, 5)):
        start = rng.choice((0, 0, rng.randrange(len(written))))
        content = "".join(written[start : rng.randint(start, len(written))])
        content = content if rng.random() < 0.9 else "".join(rng.choices("abcd", k=2))
        actions.append(Action("get", None, rng.choice((content, content, content, UNKNOWN)), key))
    return actions


ACTIONS = {"set": set_actions, "append-log": log_actions, "key-value": string_actions}


def random_history(name: str, rng: Random) -> list[Operation]:
    """Up to four values, inserted and taken or read at random; few instants, so that many times are equal."""
    if name == "lock":
        return random_lock(rng)
    values = rng.sample(range(4), rng.randint(1, 4))
    span = rng.choice((6, 10, 14, 20))
    if name in ACTIONS:
        actions = ACTIONS[name](values, rng)
    else:
        actions = [Action(INSERT[name], value, None) for value in values]
        answers: list[Any] = rng.sample(values, rng.randint(0, len(values)))
        answers += rng.choices((None, UNKNOWN, *range(4), *values), k=rng.choice((0, 0, 1, 2)))
        actions += [Action(TAKE[name], None, answer) for answer in answers]
    if rng.random() < 0.05:
        actions.append(rng.choice(actions))
    operations = []
    for action in actions:
        call = rng.randrange(span)
        end = None if rng.random() < 0.06 else call + rng.choice(LENGTHS)
        operations.append(Operation(action, call, end))
    return operations


def kinds(operations: list[Operation]) -> Iterator[str]:
    """The `KINDS` that occur in a history. A removal or read of nothing is empty; an insert may stay unmatched."""
    inserted, found, times = set(), set(), []
    for (f, value, result, _), call, end, _ in operations:
        times += [call] if end is None else [call, end]
        if f in INSERTS:
            inserted.add(value)
        elif end is not None and f != "end":
            finds = result if isinstance(result, tuple | frozenset) else (value if f in OF_VALUE else result,)
            found |= {*finds} if result is not False else set()
            if not finds or result is False or (result is None and f not in OF_VALUE):
                yield "empty"
        if end is None:
            yield "pending insert" if f in INSERTS else "pending removal or read"
    if inserted - found:
        yield "unmatched insert"
    if len(set(times)) < len(times):
        yield "equal times"


class Batch:
    """Histories of one object, numbered and encoded together; each is a part."""

    def __init__(self, name: str, histories: list[list[Operation]]) -> None:
        self.model = MODELS[name]
        numbered = number_actions(self.model, [*chain.from_iterable(histories)])
        self.steps = Steps(self.model, numbered.actions, numbered.observes)
        encoding = encode(self.model, numbered)
        assert encoding is not None
        self.encoding = encoding
        sizes = [len(operations) for operations in histories]
        self.first = [0, *np.cumsum(sizes).tolist()]  # of each history
        part_of = np.repeat(np.arange(len(histories), dtype=np.int32), sizes)
        history = numbered.history()
        events, self.starts = sort_by_part(history.events, part_of, len(histories))
        self.history = history._replace(events=events)

    def by_monitor(self, part: int) -> tuple[int, list[int]]:
        """The monitor's verdict on a history, and its witness."""
        chosen = np.array([part], np.int32)
        for kind, machine, initial, values, refutes_only in self.encoding.monitored:
            verdicts, witness = monitor_parts(self.history, self.starts, chosen, kind, machine, initial, values)
            if verdicts[0] == ILLEGAL or (verdicts[0] == LINEARIZABLE and not refutes_only):
                return int(verdicts[0]), (witness - self.first[part]).tolist()
        return UNDECIDED, []

    def by_compiled_search(self, part: int) -> str | None:
        """The verdict of the compiled search; None if it gave up."""
        chosen = np.array([part], np.int32)
        illegal, is_found, *_ = search_parts(
            self.history, self.starts, self.encoding.machine, self.encoding.initial, chosen, 1_000_000
        )
        return "illegal" if illegal >= 0 else "ok" if is_found[0] else None

    def by_quick_search(self, part: int) -> str | None:
        """The verdict of the search in plain Python; None if it gave up."""
        events = self.history.events[self.starts[part] : self.starts[part + 1]]
        return QuickSearch(self.history._replace(events=events), self.steps, Budget(None, 1 << 30)).run()


def by_monitor(name: str, operations: list[Operation]) -> tuple[int, list[int]]:
    """The monitor's verdict on a history of one object, and its witness."""
    return Batch(name, [operations]).by_monitor(0)


def shows_failure(name: str, operations: list[Operation], witness: list[int]) -> bool:
    """Whether no permutation linearizes the witness, whatever the other operations did."""
    doubted = [
        operation if i in witness or operation.end is None else operation._replace(action=Action(MAYBE, operation[0]))
        for i, operation in enumerate(operations)
    ]
    return bool(witness) and not is_linearizable(doubting_model(MODELS[name]), doubted)


def disagree(batch: Batch, part: int, operations: list[Operation], number: int) -> bool:
    """Whether the monitor, the searches and all permutations contradict each other, or the witness proves nothing."""
    verdict, witness = batch.by_monitor(part)
    searched = batch.by_compiled_search(part)
    expected = {LINEARIZABLE: "ok", ILLEGAL: "illegal"}.get(verdict, searched)
    if searched != expected or batch.by_quick_search(part) not in (expected, None):
        return True
    if number % 20 == 0 and is_linearizable(batch.model, operations) != (expected == "ok"):
        return True
    return number % 100 == 0 and verdict == ILLEGAL and not shows_failure(batch.model.name, operations, witness)


def agreement(name: str, count: int, seed: int) -> Agreement:
    """Compare on so many histories."""
    rng = Random(seed)
    decided = illegal = 0
    by_kind: Counter[str] = Counter()
    for start in range(0, count, BATCH):
        histories = [random_history(name, rng) for _ in range(min(BATCH, count - start))]
        batch = Batch(name, histories)
        for part, operations in enumerate(histories):
            verdict, _ = batch.by_monitor(part)
            if verdict != UNDECIDED:
                decided += 1
                illegal += verdict == ILLEGAL
                by_kind.update({*kinds(operations)})
            if disagree(batch, part, operations, start + part):
                return Agreement(start + part, decided, illegal, by_kind, operations)
    return Agreement(count, decided, illegal, by_kind, None)


def main() -> None:
    count, seed = [*map(int, sys.argv[1:3]), *(2000, 1)[len(sys.argv) - 1 :]]
    columns = ("histories", "decided by the monitor", "illegal", *KINDS)
    print(f"| object | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name in sys.argv[3:] or NAMES:
        found = agreement(name, count, seed)
        numbers = (*found[:3], *(found.kinds[kind] for kind in KINDS))
        print(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |", flush=True)
        if found.wrong is not None:
            sys.exit(f"The last of them: monitor, search and permutations differ: {found.wrong}")


if __name__ == "__main__":
    main()
