"""The final reads of a partition (format.md): those of role final, or else a consumer's uninterrupted pass."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ...histories.tables import MIN_INT64
from .log_start import log_start
from .observations import Observations, once
from .open_transactions import hidden_from
from .ranges import ranges_in


class FinalReads(NamedTuple):
    """The passes over the whole partition after the last fault: who made them, and the offsets they cover."""

    processes: tuple[str, ...]
    start: int
    end: int  # exclusive
    since: int  # ns: the passes began
    until: int  # ns: their last poll
    asked: int | None  # ns: when that end was last asked for; None: nobody did
    complete: bool  # they went from the log start to the end that was asked for
    hides: int  # the first offset that an open transaction may have hidden from them


@once
def final_reads(p: Observations) -> FinalReads | None:
    """The final reads of a partition, if anybody did them."""
    if not p.settings.final:
        return None
    named = tuple(p.settings.final_processes())
    if named:
        return _pass_of(p, named)
    whole = (_pass_of(p, (process,)) for process in p.reads["process"].unique(maintain_order=True))
    return next((done for done in whole if done and _is_uninterrupted(p, done)), None)


def asked_end(p: Observations) -> int | None:
    """The end offset asked after the last fault healed, if anyone asked; else, of these, a last stable offset."""
    for ends in (p.log_ends, p.end_offsets):
        late = ends.filter(pl.col("invoked") >= p.last_heal)
        if len(late):
            return int(late["offset"][-1])
    return None


def _pass_of(p: Observations, processes: tuple[str, ...]) -> FinalReads | None:
    """What these processes read after the last heal, or None if they did not come by this partition."""
    mine = p.reads.filter(pl.col("process").is_in(processes) & (pl.col("completed") >= p.last_heal))
    assigned = p.assigned_by(list(processes))
    if not len(mine) and not len(assigned):
        return None
    # Only an assignment says that the reads began behind the log start: the first record may be the lost one.
    begin = assigned["offset"].min()
    begins = log_start(p).certain
    start = max(begins, begin if isinstance(begin, int) else begins)
    top = mine["offset"].max()
    end = int(top) + 1 if isinstance(top, int) else start
    begun = assigned["completed"].max() if len(assigned) else mine["completed"].min()
    told = asked_end(p)
    # Markers and aborted records may follow the last record that a consumer sees; acknowledged ones may not.
    until = mine["completed"].max() if len(mine) else begun
    hides = hidden_from(p, processes, end, _ns(until))
    asked = end if told is None else max(end, min(told, hides))
    offset = pl.col("offset")
    outside = (offset >= end) & (offset < asked) | (offset >= begins) & (offset < start)
    missed = p.sends.filter(pl.col("acknowledged") & outside)
    if len(missed):
        # Where the log was written anew, a marker may stand where an acknowledged record stood.
        missed = missed.filter(~pl.Series(ranges_in(p.legally_absent).hold(missed["offset"].to_numpy())))
    complete = not len(missed)
    end = asked if complete else end
    late = (pl.col("invoked") >= p.last_heal) & (pl.col("offset") == end)
    when = p.end_offsets.filter(late)["invoked"].max()
    moment = when if isinstance(when, int) else None
    return FinalReads(processes, start, end, _ns(begun), _ns(until), moment, complete, hides)


def _is_uninterrupted(p: Observations, done: FinalReads) -> bool:
    """From the log start to an end offset asked after the last heal, without seek, assignment or jump."""
    whose = pl.col("process").is_in(done.processes)
    mine = p.reads.filter(whose & (pl.col("completed") >= p.last_heal))
    asked = asked_end(p)
    if not len(mine) or asked is None:
        return False
    moves = pl.concat(
        [
            p.marks.filter(whose & pl.col("kind").is_in(["seek", "assign", "revoke"])).select("completed"),
            p.context.filter(whose & (pl.col("kind") == "crash")).select("completed"),
        ]
    )
    begun = _ns(mine["completed"].min())
    forward = bool((mine["offset"].diff().drop_nulls() > 0).all())
    first = int(mine["offset"][0] or 0)
    # An assignment from which it had read before the last heal is not where this pass began.
    earlier = _ns(p.reads.filter(whose & (pl.col("completed") < p.last_heal))["completed"].max())
    assigned = p.assigned_by(list(done.processes)).filter(pl.col("completed").is_between(earlier, begun))
    start = _ns(assigned["offset"][-1]) if len(assigned) else first
    still = not len(moves.filter(pl.col("completed") > begun))
    return done.complete and done.end >= asked and forward and still and start <= log_start(p).certain


def _ns(value: object) -> int:
    return value if isinstance(value, int) else MIN_INT64
