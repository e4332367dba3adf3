"""Polls without a recorded completion: the offsets that each may have returned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from ..wording import some
from .observations import Observations, once
from .ranges import NO_RANGES, Ranges, union_of

if TYPE_CHECKING:
    from .partition import Partition


@once
def indeterminate_polls(p: Partition, processes: tuple[str, ...]) -> Ranges:
    """The offsets that indeterminate polls of these processes may have returned.

    A poll returns offsets after the last record that its process read before, and before the next that it read.
    """
    polls = p.context.filter(pl.col("process").is_in(processes), kind="poll")
    if not len(polls):
        return NO_RANGES
    # A process that neither read this partition nor was assigned to it polled others.
    here = pl.concat([p.reads["process"], p.marks["process"]]).unique()
    polls = polls.filter(pl.col("process").is_in(here.implode()))
    lows, highs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for process, invoked in polls.group_by("process").agg(pl.col("invoked").unique()).sort("process").iter_rows():
        reads = p.reads.filter(pl.col("offset").is_not_null(), process=process).sort("completed", "at")
        offsets = reads["offset"].to_numpy()
        at = np.searchsorted(reads["completed"].fill_null(MAX_INT64).to_numpy(), np.array(invoked), "right")
        before, after = np.append(-1, offsets)[at], np.append(offsets, MAX_INT64)[at]
        lows.append(before + 1)
        # If the next read is at a lower offset, or there is none, the poll is unbounded.
        highs.append(np.where(after > before, after - 1, MAX_INT64))
    return union_of(np.concatenate(lows), np.concatenate(highs))


def has_left_out_lines(p: Observations) -> bool:
    """Whether lines of the history were left out, because they could not be read or contradict others."""
    return "left out" in p.context["kind"]


@once
def may_lack_operations(p: Observations) -> bool:
    """Whether both lines of an operation may be missing, so that nothing is known of it."""
    return _number_of(p, "unreadable") >= 2 or _has_lone_completions(p)


@once
def lacks_lines(p: Observations) -> str:
    """What shows that lines of the history are missing, as where a file was cut; empty without a sign."""
    recorded = p.context.filter(kind="events")["process"]
    if silent := [name for name in p.settings.final_readers() if name not in recorded]:
        return f"run.json names the final reads of {some(silent)}, and the history has no event of it"
    return "the history has completions without an invocation" if _has_lone_completions(p) else ""


def _has_lone_completions(p: Observations) -> bool:
    """Whether more completions lack their invocation than lines could not be read, so that lines are missing."""
    return _number_of(p, "lone completions") > _number_of(p, "unreadable")


def _number_of(p: Observations, kind: str) -> int:
    """The number in the rows of the context of this kind."""
    return int(p.context.filter(kind=kind)["detail"].cast(pl.Int64).sum())


def within_polls(p: Observations, processes: Iterable[str]) -> Ranges:
    """The offsets between the first and the last record of a poll of these processes: no other poll returned them."""
    reads = p.reads.filter(pl.col("process").is_in([*processes]) & pl.col("offset").is_not_null())
    spans = reads.group_by("process", "at").agg(first=pl.col("offset").min(), last=pl.col("offset").max())
    return union_of(spans["first"].to_numpy(), spans["last"].to_numpy())
