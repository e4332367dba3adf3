"""Ranges of offsets that undecided polls may have given, against sets of offsets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.partitions.ranges import merged

SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 6)), max_size=8)


@given(SPANS, st.integers(0, 14), st.integers(0, 5))
def test_merged_ranges_hold_what_any_of_them_holds(spans: list[tuple[int, int]], first: int, length: int) -> None:
    low = np.array([start for start, _ in spans], np.int64)
    ranges = merged(low, low + np.array([size for _, size in spans], np.int64))
    within = {offset for start, size in spans for offset in range(start, start + size + 1)}
    assert ranges.hold(np.arange(25)).tolist() == [offset in within for offset in range(25)]
    assert ranges.cover(first, first + length) == (set(range(first, first + length + 1)) <= within)
    assert (ranges.first[1:] > ranges.last[:-1] + 1).all()
