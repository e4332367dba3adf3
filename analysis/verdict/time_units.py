"""Whether a history's times can be nanoseconds since the start, as the format wants, or are of another unit."""

from __future__ import annotations

from collections.abc import Sequence

# Units of a clock since 1970, with how many of them are a second.
EPOCHS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6}
YEAR_2000, YEAR_2100 = 946_684_800, 4_102_444_800  # s since 1970
# No client gets an answer over a network so soon: a round trip within a host takes some 50,000 ns.
MIN_ROUND_TRIP_NS = 20_000
# Times since the start may have too coarse a unit: no client does so many operations in so short a time.
MIN_OPERATIONS = 100
MIN_NS_PER_OPERATION = 50
MIN_LATENCY_NS = 1_000


def doubtful_unit(span: Sequence[int] | None, latencies: Sequence[int | None], operations: int) -> str:
    """Why the times of a run cannot be nanoseconds, as a sentence; empty where they can.

    `span`: its first and last time; `latencies`: of each partition the lower quartile (ns) of what operations took.
    A clock's value alone proves nothing, as a monotonic clock may stand anywhere: the durations must fit the unit, too.
    """
    known = [latency for latency in latencies if latency is not None]
    if span is None or not known or span[0] == span[1]:
        return ""
    first, last = span
    took = max(known)
    for unit, a_second in EPOCHS.items():
        since_1970 = first >= YEAR_2000 * a_second and last <= YEAR_2100 * a_second
        if since_1970 and took < MIN_ROUND_TRIP_NS:
            return (
                f"times begin at {first:,}, which is a date in {unit} since 1970, and operations took {took:,} of it;"
                " expected nanoseconds since the start of the run"
            )
    crowded = operations >= MIN_OPERATIONS and last - first < operations * MIN_NS_PER_OPERATION
    if crowded and took < MIN_LATENCY_NS:
        return (
            f"{operations:,} operations in {last - first:,} ns are more than clients can do;"
            " expected times in nanoseconds since the start of the run"
        )
    return ""
