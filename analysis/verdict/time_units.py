"""Whether a history's times can be nanoseconds since the start, as the format requires."""

from __future__ import annotations

from collections.abc import Sequence

# The number of units in a second, for clocks that count from 1970.
EPOCHS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6}
YEAR_2000, YEAR_2100 = 946_684_800, 4_102_444_800  # s since 1970
# No client gets a response over a network sooner: a round trip within a host takes about 50,000 ns.
MIN_ROUND_TRIP_NS = 20_000
# Times since the start may have a coarser unit. No client completes this many operations in so short a time.
MIN_OPERATIONS = 100
MIN_NS_PER_OPERATION = 50
MIN_LATENCY_NS = 1_000


def doubtful_unit(span: Sequence[int] | None, latencies: Sequence[int | None], operations: int) -> str:
    """The reason why the times of a run cannot be nanoseconds, as a sentence; empty if they can be.

    `span` is the first and last time of the run, `latencies` the lower quartile of latencies (ns) of each partition.
    The value of a clock alone proves nothing, because a monotonic clock may begin anywhere. So the latencies must fit
    the unit, too.
    """
    known = [latency for latency in latencies if latency is not None]
    if span is None or not known or span[0] == span[1]:
        return ""
    first, last = span
    took = max(known)
    for unit, per_second in EPOCHS.items():
        since_1970 = first >= YEAR_2000 * per_second and last <= YEAR_2100 * per_second
        if since_1970 and took < MIN_ROUND_TRIP_NS:
            return (
                f"times begin at {first:,}, a date in {unit} since 1970, and operations took {took:,} {unit};"
                " expected nanoseconds since the start of the run"
            )
    is_too_dense = operations >= MIN_OPERATIONS and last - first < operations * MIN_NS_PER_OPERATION
    if is_too_dense and took < MIN_LATENCY_NS:
        return (
            f"{operations:,} operations in {last - first:,} ns are more than clients can do;"
            " expected times in nanoseconds since the start of the run"
        )
    return ""


def short_latency(latencies: Sequence[int | None]) -> str:
    """A warning if operations were faster than a network, as they are in microseconds since the start; else empty.

    A log within the client's process can be as fast, so this alone breaks no assumption. `latencies` as above.
    """
    took = max((latency for latency in latencies if latency is not None), default=MIN_ROUND_TRIP_NS)
    if took >= MIN_ROUND_TRIP_NS:
        return ""
    return f"operations took {took:,} ns, less than a round trip within a host: are times in nanoseconds?"
