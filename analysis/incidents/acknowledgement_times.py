"""When the brokers acknowledged records that were sent in transactions."""

from __future__ import annotations

import polars as pl

from ..causes.replica_history import is_dead
from ..timelines.timeline import Term, Timeline

TIMES = {"acked_from": pl.Int64, "acked_by": pl.Int64}


def with_acknowledgement_times(timeline: Timeline, sends: pl.DataFrame, values: list[str]) -> pl.DataFrame:
    """Sends (SENT_RECORDS) with `acked_from` and `acked_by` for those of `values` that were sent in transactions.

    A client only reports the end of a transaction, which may be long after the brokers acknowledged its records, and an
    election in between may have lost them. So such a send was acknowledged

    - after its transaction and the epoch that wrote it began (`acked_from`);
    - before its transaction ended and before a consumer read it (`acked_by`);
    - before the last leader that had the record died, and before the first epoch that began at or below its offset: the
      leader of that epoch did not have the record (`acked_by`).
    """
    wanted = pl.col("txn").fill_null(False) & pl.col("acknowledged") & pl.col("value").is_in(values)
    known = sends.filter(wanted & pl.col("offset").is_not_null()).unique(["offset", "value"], keep="none")
    if not len(known):
        return sends
    key = ["offset", "value"]
    held = timeline.replica_logs.records.select(*key, "leader_epoch").drop_nulls().unique().unique(key, keep="none")
    known = known.drop(*TIMES).join(held, on=key, how="left", maintain_order="left")
    places = known.select("leader_epoch", "offset").rows()
    leaders = {place: _times_of_leaders(timeline, *place) for place in dict.fromkeys(places)}
    began, gone = zip(*(leaders[place] for place in places), strict=True)
    times = known.select(
        *key,
        acked_from=pl.max_horizontal("invoked", pl.Series(began, dtype=pl.Int64)),
        acked_by=pl.min_horizontal("completed", "first_read", pl.Series(gone, dtype=pl.Int64)),
    )
    # Times in the wrong order come from clocks that disagree, and prove nothing.
    times = times.filter(pl.col("acked_from") <= pl.col("acked_by"))
    return sends.drop(*TIMES).join(times, on=key, how="left", maintain_order="left")


def _times_of_leaders(timeline: Timeline, epoch: int | None, offset: int) -> tuple[int | None, int | None]:
    """The times (ns) when the epoch that wrote a record began, and when the last leader with the record was gone."""
    terms = [term for term in timeline.terms.values() if epoch is not None and term.epoch >= epoch]
    if not terms or terms[0].epoch != epoch:
        return None, None
    later = (number for number, term in enumerate(terms) if number and term.start is not None and term.start <= offset)
    number = next(later, None)
    return terms[0].time, None if number is None else _last_time_of(timeline, terms[number - 1], terms[number])


def _last_time_of(timeline: Timeline, last: Term, successor: Term) -> int | None:
    """The time (ns) at which a term's leader stopped leading: the next term, or its death; None if not known."""
    # The controller's record of a change names the ISR after it.
    until = min((time - 1 for time in (successor.time, last.ended) if time is not None), default=None)
    if until is None or last.leader is None or not is_dead(timeline, last.leader, until, until, without_fences=True):
        return until
    died = [e.time for e in timeline.died(last.leader) if e.fact.place is not None and e.time is not None]
    return max(time for time in died if time <= until)
