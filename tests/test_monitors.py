"""Monitors: the same verdicts as search and permutations, what they leave to the search, and length."""

from __future__ import annotations

import time

import pytest
from logjudge.models.operations import UNKNOWN, Action, Operation
from logjudge.models.porcupine import check_operations
from logjudge.models.porcupine.spans import UNDECIDED
from logjudge.models.specifications import MODELS
from monitor_agreement import INSERT, TAKE, agreement, by_monitor


@pytest.mark.parametrize("name", INSERT)
def test_monitors_agree_with_search_and_permutations(name: str) -> None:
    compared = agreement(name, 1500, seed=11)
    assert compared.wrong is None
    assert min(compared.illegal, compared.decided - compared.illegal) > 100


@pytest.mark.parametrize("name", TAKE)
def test_the_ambiguous_is_left_to_the_search(name: str) -> None:
    insert = Action(INSERT[name], 1, None)
    twice = [Operation(insert, 0, 1), Operation(insert, 2, 3)]
    assert by_monitor(name, twice) == UNDECIDED
    if name != "register":
        # Which of both values the open operation took is not known.
        operations = [Operation(insert, 0, 1), Operation(Action(TAKE[name], None, UNKNOWN), 2)]
        assert by_monitor(name, operations) == UNDECIDED


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
