"""The consistency models that allow a tiny history of lists or registers, found by trying all orders of transactions.

A transaction is committed (`ok`), aborted (`fail`) or indeterminate (`info`: it may have taken effect). Its steps are
("r", key, value) and ("w", key, value). A value read is the tuple of a list's elements; for a register, it is empty or
has one element.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from random import Random
from typing import Any, NamedTuple

Step = tuple[str, str, Any]
State = dict[str, tuple[Any, ...]]
Before = set[tuple[int, int]]


class Txn(NamedTuple):
    process: int
    outcome: str
    start: int  # the line of its invocation
    end: int
    steps: tuple[Step, ...]


class History(NamedTuple):
    txns: list[Txn]
    is_register: bool


def effective(history: History) -> Iterator[list[int]]:
    """The transactions that may have taken effect: all committed ones, and any of the indeterminate ones."""
    certain = [number for number, txn in enumerate(history.txns) if txn.outcome == "ok"]
    indeterminate = [number for number, txn in enumerate(history.txns) if txn.outcome == "info"]
    for count in range(len(indeterminate) + 1):
        for chosen in combinations(indeterminate, count):
            yield [*certain, *chosen]


def ended_before(history: History, order: str) -> Before:
    """The pairs (a, b) where a ended before b began: all pairs for "strong", those of one process for "session"."""
    return {
        (one, other)
        for one, first in enumerate(history.txns)
        for other, second in enumerate(history.txns)
        if first.outcome == "ok" and first.end < second.start
        if order == "strong" or (order == "session" and first.process == second.process)
    }


def written(state: State, key: str, value: Any, is_register: bool) -> State:
    return {**state, key: (value,) if is_register else (*state.get(key, ()), value)}


def run(txn: Txn, state: State, is_register: bool) -> State | None:
    """The state after a transaction that starts from `state`; None if its reads differ from that state."""
    for f, key, value in txn.steps:
        if f == "w":
            state = written(state, key, value, is_register)
        elif txn.outcome == "ok" and state.get(key, ()) != value:
            return None
    return state


def orders_of(history: History, order: str) -> Iterator[tuple[int, ...]]:
    """All permutations of the transactions that may have taken effect which respect `order`."""
    before = ended_before(history, order)
    for chosen in effective(history):
        for permutation in permutations(chosen):
            place = {number: at for at, number in enumerate(permutation)}
            if not any(place[a] > place[b] for a, b in before if a in place and b in place):
                yield permutation


def is_serializable(history: History, order: str = "") -> bool:
    for permutation in orders_of(history, order):
        state: State | None = {}
        for number in permutation:
            state = None if state is None else run(history.txns[number], state, history.is_register)
        if state is not None:
            return True
    return False


def is_read_committed(history: History, order: str = "") -> bool:
    """Each read saw some committed state before its own commit. Requires that no transaction uses a key twice."""
    for permutation in orders_of(history, order):
        states: list[State] = [{}]
        for number in permutation:
            txn, state = history.txns[number], states[-1]
            reads = [(key, value) for f, key, value in txn.steps if f == "r" and txn.outcome == "ok"]
            if not all(any(each.get(key, ()) == value for each in states) for key, value in reads):
                break
            for f, key, value in txn.steps:
                state = written(state, key, value, history.is_register) if f == "w" else state
            states.append(state)
        else:
            return True
    return False


def is_snapshot_isolated(history: History, order: str = "") -> bool:
    """Each transaction reads from a snapshot, and commits unless a key that it wrote was committed since."""
    before = ended_before(history, order)

    def can_end(state: State, begun: dict[int, State], done: set[int], rest: set[int]) -> bool:
        if not rest and not begun:
            return True
        for number in sorted(rest):
            if (
                all(a in done for a, b in before if b == number and (a in rest or a in begun))
                and run(history.txns[number], state, history.is_register) is not None
                and can_end(state, {**begun, number: state}, done, rest - {number})
            ):
                return True
        for number, snapshot in begun.items():
            writes = [(key, value) for f, key, value in history.txns[number].steps if f == "w"]
            if all(snapshot.get(key, ()) == state.get(key, ()) for key, _ in writes):
                after = state
                for key, value in writes:
                    after = written(after, key, value, history.is_register)
                others = {other: start for other, start in begun.items() if other != number}
                if can_end(after, others, done | {number}, rest):
                    return True
        return False

    return any(can_end({}, {}, set(), set(chosen)) for chosen in effective(history))


def random_history(random: Random, is_register: bool, once: bool) -> History:
    """Transactions executed one after the other, with a few anomalies. `once`: none uses a key twice."""
    count = random.randint(2, 4)
    values = dict.fromkeys("xyz", 0)
    anomaly_rate = random.choice((0.0, 0.15, 0.4))
    steps: list[tuple[Step, ...]] = []
    states: list[State] = [{}]
    outcomes = []
    for _ in range(count):
        outcome = random.choices(("ok", "fail", "info"), (85, 6, 9))[0]
        state, own = states[-1], []
        snapshot = random.choice(states) if random.random() < 2 * anomaly_rate else state
        keys = random.sample("xyz", random.randint(1, 3)) if once else random.choices("xy", k=random.randint(1, 3))
        current = snapshot
        for key in keys:
            if random.random() < 0.5:
                values[key] += 1
                own.append(("w", key, values[key]))
                current = written(current, key, values[key], is_register)
                state = written(state, key, values[key], is_register)
                continue
            read = current.get(key, ())
            if random.random() < anomaly_rate:
                seen = random.choice([*states, state, current]).get(key, ())
                read = seen if is_register or random.random() < 0.7 else seen[: random.randint(0, len(seen))]
                read = read if is_register or random.random() < 0.9 else tuple(random.sample(read, len(read)))
            own.append(("r", key, read))
        takes_effect = outcome == "ok" or (random.random() < (0.15 if outcome == "fail" else 0.5))
        states.append(state if takes_effect else states[-1])
        steps.append(tuple(own))
        outcomes.append(outcome)
    if random.random() < 0.6:  # a final read of all
        steps.append(tuple(("r", key, states[-1].get(key, ())) for key in sorted(values)))
        outcomes.append("ok")
    return History(txns_in_lines(random, steps, outcomes), is_register)


def txns_in_lines(random: Random, steps: list[tuple[Step, ...]], outcomes: list[str]) -> list[Txn]:
    """The transactions with processes and the lines of their events. They start about in their order; some overlap."""
    width = random.choice((1, 3, 8))
    moments = []
    for number in range(len(steps)):
        start = 2 * number + random.uniform(0, width)
        moments += [(start, number, 0), (start + random.uniform(0.1, width), number, 1)]
    line = {(number, end): at for at, (_, number, end) in enumerate(sorted(moments))}
    free: dict[int, int] = {}  # the last line of each process's latest transaction
    txns: dict[int, Txn] = {}
    for number in sorted(range(len(steps)), key=lambda number: line[number, 0]):
        start, end = line[number, 0], line[number, 1]
        idle = [process for process, since in free.items() if since < start]
        process = random.choice(idle) if idle and random.random() < 0.8 else len(free)
        # Jepsen gives a client that crashed a new number; others let it go on with the same one.
        free[process] = end if outcomes[number] == "ok" or random.random() < 0.5 else len(line)
        txns[number] = Txn(process, outcomes[number], start, end, steps[number])
    return [txns[number] for number in range(len(steps))]


def edn_lines(history: History, process: int = 0, key: str = "") -> list[str]:
    """The history in EDN. `process` is added to the numbers of processes, and `key` is put before names of keys."""
    write = "w" if history.is_register else "append"
    events = []
    for txn in history.txns:
        for at, kind in ((txn.start, "invoke"), (txn.end, txn.outcome)):
            words = []
            for f, name, value in txn.steps:
                if f == "w":
                    words.append(f"[:{write} :{key}{name} {value}]")
                elif kind != "ok":
                    words.append(f"[:r :{key}{name} nil]")
                elif history.is_register:
                    words.append(f"[:r :{key}{name} {value[0] if value else 'nil'}]")
                else:
                    words.append(f"[:r :{key}{name} [{' '.join(map(str, value))}]]")
            values = f"[{' '.join(words)}]"
            line = f"{{:type :{kind}, :f :txn, :value {values}, :process {process + txn.process}, :time {at}}}"
            events.append((at, line))
    return [line for _, line in sorted(events)]
