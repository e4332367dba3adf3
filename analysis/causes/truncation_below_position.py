"""truncation-below-position: the log was truncated below a group's position, and the group skipped the records that
were written there afterwards.

Committed offsets name positions, not records. A client recognises the truncation only by the leader epoch of its
position (KIP-320), and a committed offset without that epoch hides it from the next member.

Needs: a member polled another record at the first missed offset; and the group's position was beyond the missed
records then, or later, without a poll of them (polls, a commit, or the offset of an assignment).
"""

from __future__ import annotations

import polars as pl

from ..timelines.facts import ordered
from ..wording import quoted
from .cases import NOT_THE_CASE, Attempt, Missed, Processes, needs

CITATION = "KIP-320 (clients detect the truncation of a log)"
REMEDY = "The remedy of the truncation's own cause; commits with the leader epoch of the position."
PREVENTED_BY = ["commits with the leader epoch of the position, so that a client notices the truncation (KIP-320)"]


def explain_missed(events: pl.DataFrame, missed: Missed, _: Processes) -> Attempt:
    """Whether the group had passed the missed offsets in the log as it was before a truncation."""
    if missed.earlier is None:
        return NOT_THE_CASE
    since = events.filter(pl.col("time") >= missed.earlier["time"])
    polled = (pl.col("f") == "poll") & (pl.col("last_offset") >= missed.last)
    placed = pl.col("f").is_in(["commit", "assign", "seek"]) & (pl.col("first_offset") > missed.last)
    beyond = since.filter(polled | placed)
    if not beyond.height:
        return needs(f"how group {missed.group} got a position beyond offset {missed.last} of {missed.name}")
    earlier, row = missed.earlier, beyond.row(0, named=True)
    place = f"offset {missed.first} of {missed.name}"
    text = f"{earlier['process']} polled {quoted(earlier['value'])} at {place}"
    text += ", where the missed record was written later"
    did = {"commit": "committed", "assign": "was assigned", "seek": "sought", "poll": "polled"}[row["f"]]
    offset = row["last_offset"] if row["f"] == "poll" else row["first_offset"]
    facts = [
        missed.fact({**earlier, "first_offset": missed.first}, "polled", text),
        missed.fact(row, "committed", f"{row['process']} {did} offset {offset}, which is past all missed records"),
    ]
    if missed.truncation is None:
        return Attempt(True, ordered(facts), PREVENTED_BY)
    return Attempt(True, ordered([*missed.truncation.chain, *facts]), [*missed.truncation.prevented_by, *PREVENTED_BY])
