"""The history of single replicas: which held the lost records, and where their logs ended or were truncated."""

from __future__ import annotations

import polars as pl

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND, Fact
from ..timelines.terms import LogEnd
from ..timelines.timeline import Timeline
from .broker_lives import may_have_followed
from .isr_history import isr_at_acknowledgement
from .losses import Lost


def truncations(
    timeline: Timeline, broker: str | None, lost: Lost, after: int | None, max_end: int | None = None
) -> list[LogEnd]:
    """Truncations of a broker after a time to an offset of at most `max_end` (by default of the last lost record)."""
    return [
        end
        for end in timeline.ends_of(broker, "truncated")
        if not end.noop
        and end.end <= (lost.last if max_end is None else max_end)
        and (after is None or end.time is None or end.time >= after - SECOND)
    ]


def facts_never_truncated(timeline: Timeline, broker: str, lost: Lost, until: int | None) -> list[Fact]:
    """The fact that a broker loaded its log before the records were acknowledged.

    Empty if its server.log has another load or a truncation between the acknowledgement and `until`.
    """
    if lost.first_acked is None or until is None:
        return []
    loads = [end for end in timeline.ends_of(broker, "loaded") if end.time is not None and end.time <= until]
    since = max((end.time or 0 for end in loads), default=MAX_INT64)
    cuts = truncations(timeline, broker, lost, lost.first_acked)
    cut = any(end.time is None or end.time <= until + SECOND for end in cuts)
    return [] if cut or since > lost.first_acked else [loads[-1].fact]


def return_facts(timeline: Timeline, broker: str | None, lost: Lost, after: int | None) -> list[Fact]:
    """The facts that a broker returned and truncated the records."""
    cut = [end.fact for end in truncations(timeline, broker, lost, after)][:1]
    if after is None:
        return cut
    return [e.fact for time, e in timeline.life_of(broker) if e.kind == "started" and time >= after][:1] + cut


def had_records(timeline: Timeline, broker: str, lost: Lost) -> list[Fact]:
    """The fact that a follower had the lost records; empty without proof.

    It was in the ISR when the last of them was acknowledged, and they were below the high watermark: acks=all waits for
    the ISR, consumers read only below the high watermark, and a broker joins the ISR only with all that is below it.
    """
    committed = lost.acks == {"all"} or (lost.read is not None and lost.read == lost.count)
    if not committed or lost.first_acked is None or lost.last_acked is None:
        return []
    dated = [(isr, fact) for time, isr, fact in timeline.isr if time is not None and time <= lost.last_acked]
    if not dated or broker not in dated[-1][0]:
        return []
    # The ISR keeps a dead broker until its session ends. Only the history's clock is exact enough to order a death.
    until = max(lost.first_acked, lost.last_acked - SECOND)
    latest = [e.kind for time, e in timeline.life_of(broker) if e.fact.place is not None and time < until]
    return [] if latest[-1:] == ["died"] else [dated[-1][1]]


def snapshots_with_records(timeline: Timeline, broker: str | None, lost: Lost) -> list[Fact]:
    """The first snapshot in which a broker's log still held the lost records."""
    if broker is None:
        return []
    is_lost = pl.col("value").is_in(list(lost.values[:1]))
    names = {*timeline.replica_logs.records.filter(is_lost, broker=broker, offset=lost.first)["snapshot"]}
    return [e.fact for e in timeline.ends_of(broker, "snapshot") if e.snapshot in names][:1]


def short_log_facts(timeline: Timeline, broker: str, lost: Lost, max_end: int) -> list[Fact]:
    """The facts that a log ended at or below `max_end` after the records were acknowledged, without a truncation."""
    # Brokers' clocks may differ a little from the history's, which dates the acknowledgement and the death.
    if lost.last_acked is None:
        return []
    recorded = [(time, e.kind) for time, e in timeline.life_of(broker) if e.fact.place is not None]
    died = [time for time, kind in recorded if kind == "died"]
    since = min((time for time in died if time >= lost.last_acked), default=lost.last_acked)
    up = [time for time, kind in recorded if kind == "started"]
    restarted = min((time for time in up if time >= since), default=since)
    earlier = max((time for time in up if time < since), default=-MAX_INT64)
    loads = max(restarted - SECOND, (earlier + restarted) // 2)  # a load belongs to the nearest start
    loaded = [end.end for end in timeline.ends_of(broker, "loaded") if end.time is not None and end.time > loads]
    if loaded and loaded[0] > max_end:
        return []  # later loads belong to later starts
    cuts = [cut.time for cut in truncations(timeline, broker, lost, lost.last_acked, max_end) if cut.time is not None]
    grown = [e.time for e in timeline.ends if e.broker == broker and e.end > max_end and e.time is not None]

    def is_cut(at: int) -> bool:
        # A log that grew above `max_end` again after a truncation is not short because of it.
        return any(cut <= at and not any(cut < time < at for time in grown) for cut in cuts)

    # Snapshots have times of the history's clock, so they need no tolerance.
    begins = {"corruption": since - SECOND, "loaded": loads, "snapshot": max(since - SECOND, lost.last_acked)}
    out = []
    for kind, begin in begins.items():
        for end in timeline.ends_of(broker, kind):
            late = end.time is not None and end.time > begin
            followed = kind == "snapshot" and may_have_followed(timeline, broker, restarted, end.time or 0)
            if end.end <= max_end and late and not followed and not is_cut(end.time or 0):
                out.append(end)
                break
    copied = {end.snapshot for end in out if end.snapshot is not None}
    marks = [
        mark for mark in timeline.ends_of(broker, "high-watermark") if mark.snapshot in copied and mark.end > max_end
    ]
    return [end.fact for end in (*out, *marks)]


def missing_if_failed_together(timeline: Timeline, lost: Lost, last_leader: str | None = None) -> list[str]:
    """The missing evidence if all in-sync replicas may have lost the records, so that no election lost them.

    Kafka guarantees nothing if they fail at once. last_leader: the broker that led last; others may have lost the
    records too, unless one of them provably still had them.
    """
    together = isr_at_acknowledgement(timeline, lost)
    if len(together) < 2:
        return []
    if all(short_log_facts(timeline, member, lost, lost.last) for member in together):
        names = ", ".join(sorted(together))
        return [f"why brokers {names}, all in the ISR, started again without the records (a power failure?)"]
    others = sorted(together - {last_leader}) if last_leader in together else []
    if not others or any(still_had_records(timeline, member, lost) for member in others):
        return []
    return [f"whether {' or '.join(f'broker {other}' for other in others)}, also in the ISR, still had the records"]


def still_had_records(timeline: Timeline, broker: str, lost: Lost) -> bool:
    """Whether the next known end of a log was still above the lost records; later ends prove nothing, as logs grow."""
    known = timeline.ends_of(broker, "loaded", "followed", "snapshot", "truncated", "corruption")
    after = [end.end for end in known if end.time is not None and end.time > (lost.last_acked or 0)]
    return bool(after) and after[0] > lost.last
