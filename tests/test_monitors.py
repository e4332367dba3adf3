"""Monitors: the same verdicts as search and permutations, undecided histories, and long histories."""

from __future__ import annotations

import time
from random import Random

import pytest
from campaign import IS_CAMPAIGN
from logjudge.models.operations import UNKNOWN, Action, ModelError, Operation
from logjudge.models.porcupine import check_operations
from logjudge.models.porcupine.columns import NULL, Columns, check_columns
from logjudge.models.porcupine.part_history import ILLEGAL, LINEARIZABLE, UNDECIDED
from logjudge.models.specifications import MODELS
from monitor_agreement import INSERT, NAMES, TAKE, agreement, by_monitor, random_history, shows_failure


@pytest.mark.parametrize("name", NAMES)
def test_monitors_agree_with_search_and_permutations(name: str) -> None:
    compared = agreement(name, 1500 if IS_CAMPAIGN else 300, seed=11)
    assert compared.wrong is None
    assert compared.illegal > 20
    assert compared.decided - compared.illegal > 20


@pytest.mark.parametrize("name", TAKE)
def test_ambiguous_parts_are_left_to_the_search(name: str) -> None:
    insert = Action(INSERT[name], 1, None)
    twice = [Operation(insert, 0, 1), Operation(insert, 2, 3)]
    assert by_monitor(name, twice)[0] == UNDECIDED
    if name != "register":
        # It is unknown which of both values the open operation removed.
        operations = [Operation(insert, 0, 1), Operation(Action(TAKE[name], None, UNKNOWN), 2)]
        assert by_monitor(name, operations)[0] == UNDECIDED


def long_history(name: str, count: int, wrong: bool) -> list[Operation]:
    """Values that are inserted, and taken some time later, one after the other."""
    operations = []
    for value in range(count // 2):
        taken = value if name != "stack" else value ^ 7
        answer = 0 if wrong and value == count // 4 else taken
        operations.append(Operation(Action(INSERT[name], value, None), 20 * value, 20 * value + 50))
        start = 20 * value + (60 if name != "stack" else 20 * (taken - value) + 500 - 40 * (taken % 8))
        operations.append(Operation(Action(TAKE[name], None, answer), start, start + 15))
    return operations


@pytest.mark.parametrize("name", ["register", "queue", "priority-queue"])
def test_a_long_history_is_decided_by_its_monitor(name: str) -> None:
    small, large = (long_history(name, count, wrong=False) for count in (6_000, 60_000))
    seconds = []
    for operations in (small, large):
        began = time.perf_counter()
        result = check_operations(MODELS[name], operations)
        seconds.append(time.perf_counter() - began)
        assert (result.verdict, result.parts[0].method) == ("ok", "monitor")
    assert seconds[1] < 60 * seconds[0] + 5
    result = check_operations(MODELS[name], long_history(name, 60_000, wrong=True))
    assert (result.verdict, result.parts[0].method) == ("illegal", "monitor")
    assert result.parts[0].witness


def appends(*rows: tuple[str, str, int, int]) -> list[Operation]:
    """Appends and gets on one key, with their call and end."""
    actions = [Action(f, text if f == "append" else None, text if f == "get" else None, "k") for f, text, _, _ in rows]
    return [Operation(action, *row[2:]) for action, row in zip(actions, rows, strict=True)]


@pytest.mark.parametrize(
    ("operations", "witness"),
    [
        # Of two equal appends, the one that ends first comes first, although the other one was called before it.
        (appends(("append", "a", 0, 100), ("append", "a", 5, 6), ("append", "b", 40, 41), ("get", "aba", 90, 101)), []),
        (appends(("append", "a", 0, 9), ("append", "a", 20, 29), ("get", "aa", 5, 15)), [2]),  # one was called by then
        (appends(("append", "a", 0, 9), ("append", "b", 0, 9), ("get", "a", 10, 12)), [1, 2]),  # b was appended
        (appends(("append", "a", 0, 9), ("append", "b", 0, 9), ("get", "ab", 5, 8), ("get", "ba", 5, 8)), [2, 3]),
        (appends(("append", "a", 0, 9), ("get", "ac", 5, 12)), [1]),  # c is never appended
        # Both appends of a ended before b was called, and the content has an a after it.
        (
            appends(("append", "a", 0, 3), ("append", "a", 4, 6), ("append", "b", 7, 9), ("get", "aba", 10, 12)),
            [0, 1, 3],
        ),
    ],
)  # fmt: skip
def test_appends_that_repeat_values_are_assigned_to_positions(operations: list[Operation], witness: list[int]) -> None:
    verdict, found = by_monitor("key-value", operations)
    assert (verdict, sorted({*found} - {-1})) == (ILLEGAL if witness else LINEARIZABLE, witness)
    assert not witness or shows_failure("key-value", operations, witness)


def test_many_clients_append_few_values() -> None:
    """Fifty appends overlap at any time. A search would try their orders."""
    content, operations, rng = "", [], Random(5)
    for at in range(5_000):
        f, value, found = ("get", None, content) if at % 2 else ("append", rng.choice("abcde"), None)
        content += value or ""
        times = 10 * at - rng.randrange(500), 10 * at + rng.randrange(500)
        operations.append(Operation(Action(f, value, found, "k"), *times))
    result = check_operations(MODELS["key-value"], operations, timeout=60)
    assert (result.verdict, result.parts[0].method) == ("ok", "monitor")
    operations[4_001] = operations[4_001]._replace(action=operations[3_001].action)  # a stale get
    result = check_operations(MODELS["key-value"], operations, timeout=60)
    assert (result.verdict, result.parts[0].method) == ("illegal", "monitor")
    assert 4_001 in result.parts[0].witness


def as_columns(name: str, operations: list[Operation]) -> Columns | None:
    """The same operations in arrays; None if arrays cannot express them."""
    model, rows = MODELS[name], []
    for (f, value, result, _), call, end, _ in operations:
        if (name, f) == ("set", "read") or (isinstance(result, tuple) and len(result) != 1):
            return None
        if end is not None and result is UNKNOWN and f != "append":
            return None
        answer = result[0] if isinstance(result, tuple) else result
        known = result is not UNKNOWN and answer is not None
        rows.append((model.functions.index(f), value, int(answer) if known else None, call, end))
    return Columns(*([NULL if each is None else each for each in column] for column in zip(*rows, strict=True)))


@pytest.mark.parametrize("name", sorted({*NAMES} - {"key-value"}))
def test_columns_have_the_verdict_of_their_operations(name: str) -> None:
    rng, compared = Random(3), 0
    for _ in range(300 if IS_CAMPAIGN else 100):
        operations = random_history(name, rng)
        # In arrays, an operation without a completion has no result.
        operations = [
            each if each.end is not None else each._replace(action=each.action._replace(result=UNKNOWN))
            for each in operations
        ]
        columns = as_columns(name, operations)
        if columns is None:
            continue
        compared += 1
        result = check_columns(MODELS[name], columns)
        assert result.verdict == check_operations(MODELS[name], operations).verdict, operations
    assert compared > 20


def test_columns_are_checked_key_by_key() -> None:
    f, value, result = [0, 0, 1, 1], [1, 1, NULL, NULL], [NULL, NULL, 1, 2]
    columns = Columns(f, value, result, call=[0, 1, 10, 11], end=[5, 6, 15, 16], key=[7, 8, 7, 8])
    checked = check_columns(MODELS["queue"], columns)
    assert checked.worst is not None
    assert (checked.verdict, checked.worst.key, checked.worst.witness) == ("illegal", 8, [3])


def test_columns_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ModelError, match="lengths"):
        check_columns(MODELS["queue"], Columns([0], [1], [NULL], [0], [1, 2]))
    with pytest.raises(ModelError, match="ends at 1, called at 5"):
        check_columns(MODELS["queue"], Columns([0], [1], [NULL], [5], [1]))
    with pytest.raises(ModelError, match="cannot express"):
        check_columns(MODELS["register"], Columns([2], [1], [NULL], [0], [1]))
    with pytest.raises(ModelError, match="expected one of"):
        check_columns(MODELS["counter"], Columns([0], [1], [NULL], [0], [1]))


def test_many_keys_with_values_of_their_own_take_linear_time() -> None:
    """Each part numbers its own values: 4,000 keys of 20,000 values would be 80 million steps."""
    keys = [number % 4000 for number in range(20_000)]
    columns = Columns([0] * 20_000, range(20_000), [NULL] * 20_000, range(20_000), range(1, 20_001), keys)
    began = time.process_time()
    assert check_columns(MODELS["queue"], columns).verdict == "ok"
    assert time.process_time() - began < 5


def test_a_release_that_overlaps_an_acquire_leaves_a_lock_to_the_search() -> None:
    """The second acquire alone, after the first, would be illegal; the release is called before it ends."""
    times = [("acquire", 3, 6), ("acquire", 8, 16), ("release", 9, 19)]
    operations = [Operation(Action(("acquire", "release")[n % 2], None, None), 2 * n, 2 * n + 1) for n in range(4000)]
    operations += [Operation(Action(f, None, None), 10_000 + call, 10_000 + end) for f, call, end in times]
    assert check_operations(MODELS["lock"], operations).verdict == "ok"
    last = operations[-1]._replace(call=10_017)
    assert check_operations(MODELS["lock"], [*operations[:-1], last]).verdict == "illegal"
