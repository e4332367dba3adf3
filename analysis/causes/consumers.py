"""Causes of records that consumers missed though no broker lost them, proved from the history; a module per cause."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from . import commit_before_handle, committed_offset_vanished, consumer_reset, truncation_below_position
from .attempts import Attempt, Explanation, combine_attempts
from .missed import GROUP_EVENTS, Missed, Processes

__all__ = ["CONSUMER_CAUSES", "GROUP_EVENTS", "Missed", "explain_missed"]

ConsumerCause = Callable[[pl.DataFrame, Missed, Processes], Attempt]
CONSUMER_CAUSES: dict[str, tuple[ConsumerCause, str]] = {
    module.NAME: (module.explain, module.CITATION)
    for module in (consumer_reset, committed_offset_vanished, commit_before_handle, truncation_below_position)
}


def explain_missed(events: pl.DataFrame, missed: Missed, processes: Processes) -> Explanation:
    """The cause of records that a group missed; processes: the group's members, as in run.json."""
    ordered_events = events.sort("time", "place")
    attempts = {
        name: (cause(ordered_events, missed, processes), citation)
        for name, (cause, citation) in CONSUMER_CAUSES.items()
    }
    return combine_attempts(attempts, "what the members of the group did with these records")
