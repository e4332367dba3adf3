"""Findings in Jepsen histories that follow from a missing operation, such as a poll that would have read the value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from ..partitions.indeterminate_polls import has_left_out_lines
from ..partitions.partition import Partition
from .rule import Result, Unknown

Results = Callable[[Partition], Iterator[Result]]


def unless_left_out(results: Results) -> Results:
    """Decorates a generator of results: if lines of the history were left out, its findings are unknown.

    Each of these lines may be the poll that returned a value, or the assignment that moved a consumer. The lines after
    a damaged last one may be missing, too.
    """

    @wraps(results)
    def proved(p: Partition) -> Iterator[Result]:
        if not has_left_out_lines(p):
            yield from results(p)
            return
        found = list(results(p))
        unknowns = [result for result in found if isinstance(result, Unknown)]
        yield from unknowns
        if len(unknowns) < len(found):
            yield Unknown(
                "lines of the history are missing or could not be read, so a poll or an assignment may be missing"
            )

    return proved
