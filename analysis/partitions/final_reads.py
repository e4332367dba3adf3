"""The final reads of a partition (format.md): by processes with role final, else a consumer's uninterrupted pass."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ...histories.tables import MIN_INT64
from ..extremes import greatest, least
from .log_start import log_start
from .marks import is_final_read
from .observations import Observations, once
from .open_transactions import hidden_from
from .ranges import ranges_in


class FinalReads(NamedTuple):
    """The passes over the whole partition after the last fault: their processes, and the offsets that they cover."""

    processes: tuple[str, ...]
    start: int
    end: int  # exclusive
    since: int  # ns: the passes began
    until: int  # ns: their last poll
    requested: int | None  # ns: the last request for that end offset; None: there was none
    complete: bool  # they cover the log from its start to the requested end
    hides: int  # the first offset that an open transaction may have hidden from them


@once
def final_reads(p: Observations) -> FinalReads | None:
    """The final reads of a partition; None: there were none."""
    if not p.settings.has_final_reads:
        return None
    processes = tuple(p.settings.final_processes())
    if processes:
        return _pass_of(p, processes)
    passes = (_pass_of(p, (process,)) for process in p.reads["process"].unique(maintain_order=True))
    return next((done for done in passes if done and _is_uninterrupted(p, done)), None)


def requested_log_end(p: Observations) -> int | None:
    """The last end offset requested after the last heal, else a possible last stable offset, else None."""
    for ends in (p.log_ends, p.end_offsets):
        late = ends.filter(pl.col("invoked") >= p.last_heal)
        if len(late):
            return int(late["offset"][-1])
    return None


def _pass_of(p: Observations, processes: tuple[str, ...]) -> FinalReads | None:
    """The pass of these processes after the last heal; None if they did not read this partition."""
    reads = p.reads.filter(is_final_read(processes, p.last_heal))
    assigned = p.assigned_by(list(processes))
    if not len(reads) and not len(assigned):
        return None
    # Only an assignment proves that the reads began above the log start: the first record may be the lost one.
    first_offset = log_start(p).certain
    start = max(first_offset, least(assigned["offset"], first_offset))
    start = max(start, _continued_from(p, reads, start))
    end = greatest(reads["offset"], start - 1) + 1
    begun = greatest(assigned["completed"], least(reads["completed"], MIN_INT64))
    requested_end = requested_log_end(p)
    # Markers and aborted records may follow the last record that a consumer sees; acknowledged ones may not.
    until = greatest(reads["completed"], begun)
    hides = hidden_from(p, processes, end, until)
    log_end = end if requested_end is None else max(end, min(requested_end, hides))
    offset = pl.col("offset")
    outside = (offset >= end) & (offset < log_end) | (offset >= first_offset) & (offset < start)
    missed = p.sends.filter(pl.col("acknowledged") & outside)
    if len(missed):
        # After a rewrite of the log, a marker may be at the offset of an acknowledged record.
        missed = missed.filter(~pl.Series(ranges_in(p.legally_absent).hold(missed["offset"].to_numpy())))
    complete = not len(missed)
    end = log_end if complete else end
    late = (pl.col("invoked") >= p.last_heal) & (pl.col("offset") == end)
    requested = greatest(p.end_offsets.filter(late)["invoked"], None)
    return FinalReads(processes, start, end, begun, until, requested, complete, hides)


def _continued_from(p: Observations, reads: pl.DataFrame, start: int) -> int:
    """The offset at which the final readers went on after the last heal, if they did not read what is below again.

    What they read before the heal proves nothing about the end of the run. `start` if one of them began anew.
    """
    positions = []
    for process in reads["process"].unique():
        own = p.reads.filter(pl.col("offset").is_not_null(), process=process).sort("completed", "at", "index")
        before = own.filter(pl.col("completed") < p.last_heal).tail(1)
        begun = least(reads.filter(process=process)["completed"], MIN_INT64)
        if not len(before) or _moved_between(p, process, before["completed"].item(), begun):
            return start
        positions.append(before["offset"].item() + 1)
    position = min(positions, default=start)
    again = reads.filter(pl.col("offset") < position)["offset"]
    unread = p.sends.filter("acknowledged", pl.col("offset").is_between(start, position, closed="left"))
    return position if len(unread.filter(~pl.col("offset").is_in(again.implode()))) else start


def _moved_between(p: Observations, process: str, since: int, until: int) -> bool:
    """Whether an operation may have set the position of a process in a time (ns), except a failed one."""
    kinds = ["seek", "assign", "revoke", "subscribe", "crash"]
    moves = [frame.select("process", "kind", "completed", "outcome") for frame in (p.marks, p.context)]
    is_move = pl.col("kind").is_in(kinds) & (pl.col("outcome") != "fail") & pl.col("completed").is_between(since, until)
    return len(pl.concat(moves).filter(is_move, process=process)) > 0


def _is_uninterrupted(p: Observations, done: FinalReads) -> bool:
    """Whether the pass went from the log start to the requested end without seek, assignment or jump."""
    is_own = pl.col("process").is_in(done.processes)
    reads = p.reads.filter(is_final_read(done.processes, p.last_heal))
    requested_end = requested_log_end(p)
    if not len(reads) or requested_end is None:
        return False
    moves = pl.concat(
        [
            p.marks.filter(is_own & pl.col("kind").is_in(["seek", "assign", "revoke"])).select("completed"),
            p.context.filter(is_own, kind="crash").select("completed"),
        ]
    )
    begun = least(reads["completed"], MIN_INT64)
    is_ascending = bool((reads["offset"].diff().drop_nulls() > 0).all())
    first = int(reads["offset"][0] or 0)
    # If the consumer read from an assignment before the last heal, this pass did not begin there.
    earlier = greatest(p.reads.filter(is_own & (pl.col("completed") < p.last_heal))["completed"], MIN_INT64)
    assigned = p.assigned_by(list(done.processes)).filter(pl.col("completed").is_between(earlier, begun))
    start = int(assigned["offset"][-1]) if len(assigned) else first
    is_unmoved = not len(moves.filter(pl.col("completed") > begun))
    is_whole = done.complete and done.end >= requested_end and start <= log_start(p).certain
    return is_whole and is_ascending and is_unmoved
