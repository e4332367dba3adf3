"""Selects the sets of parameters of a test that run before every commit.

`@pytest.mark.sampled(3)` chooses three, evenly. The others get the marker `thorough`, which a whole test may have, too:
only `scripts/test --thorough` runs them, as CI does. Such tests take long, and cheaper tests run the same branches with
other data: all but 31 of 77,168 on 2026-11-30, by coverage.py (pytest --cov-branch --cov-context=test).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest


def chosen(count: int, number: int) -> set[int]:
    """`number` places of `count`, evenly, with the first; all of them if they are fewer."""
    return {count * at // number for at in range(number)} if number < count else {*range(count)}


def mark_thorough(items: Iterable[pytest.Item]) -> None:
    """Marks the sets of parameters that are not chosen."""
    functions: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("campaign"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        [number] = cases[0].iter_markers("sampled")
        some = chosen(len(cases), *number.args)
        for place, case in enumerate(cases):
            if place not in some:
                case.add_marker(pytest.mark.thorough)
