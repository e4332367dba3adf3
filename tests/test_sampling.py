"""Some sets of parameters of a sampled test have the marker `thorough`."""

from __future__ import annotations

import pytest
from sampling import chosen


@pytest.mark.parametrize(
    ("count", "number", "places"), [(6, 3, {0, 2, 4}), (10, 3, {0, 3, 6}), (5, 1, {0}), (2, 2, {0, 1}), (2, 9, {0, 1})]
)
def test_places_are_chosen_evenly(count: int, number: int, places: set[int]) -> None:
    assert chosen(count, number) == places


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", range(5))
def test_those_that_are_not_chosen_are_thorough(place: int, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("thorough") is None) == (place in (0, 2))
