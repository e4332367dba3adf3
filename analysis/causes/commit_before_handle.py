"""commit-before-handle: a member committed records that it had polled and not handled, and never handled them.

Needs: a member polled the records; a commit beyond them; and the member handled no later record before it ended, by a
crash or because another member took over the partition. The commit is recorded, or proved by the offset at which the
next member was assigned, or by `__consumer_offsets`: an automatic commit runs in the background, and its callback never
reaches a killed client.
"""

from __future__ import annotations

import polars as pl

from ..extremes import greatest
from ..timelines.facts import SECOND, Fact, ordered
from ..wording import plural, span
from .cases import NOT_THE_CASE, Attempt, Event, Missed, Processes, events_in_range, needs

CITATION = "Kafka's documentation of at-most-once delivery and enable.auto.commit"
REMEDY = "enable.auto.commit=false, and commits after the records are handled."
IN_BACKGROUND = "had committed it in the background, and its callback was not recorded"


def explain_missed(events: pl.DataFrame, missed: Missed, processes: Processes) -> Attempt:
    """Whether a member polled the missed records, committed beyond them, and ended before it handled them."""
    polled = events_in_range(events, "poll", missed)
    handled = (pl.col("first_offset") <= missed.first) & (pl.col("last_offset") >= missed.last)
    # With `earlier` the members' polls are of other records, which had the offsets before.
    are_handled = events_in_range(events, "handle", missed).filter(handled).height > 0
    if missed.earlier is not None or not polled.height or are_handled:
        return NOT_THE_CASE
    poll = polled.row(0, named=True)
    commits = events.filter(pl.col("first_offset") > missed.last, pl.col("time") >= poll["time"], f="commit")
    commit = commits.row(0, named=True) if commits.height else None
    assigned = _assigned_beyond(events, missed, poll)
    stored = _stored_beyond(events, missed, poll)
    if commit is None and assigned is None and stored is None:
        return needs(f"a commit of group {missed.group} beyond offset {missed.last} of {missed.name}")
    # Only the member's own commit proves which offset it committed; a commit of another member does not.
    own = commit if commit is not None and commit["process"] == poll["process"] else None
    end = _end_of(events, poll, own["time"] if own else poll["time"], assigned)
    if end is None or not (own or assigned or stored):
        return needs(f"evidence that {poll['process']}, which polled the records, ended before it handled them")
    alive = (pl.col("process") == poll["process"]) & pl.col("time").is_between(poll["time"], end["time"])
    later = events.filter(alive, pl.col("last_offset") > missed.last, f="handle")["last_offset"]
    if len(later):
        skipped = f"why {poll['process']} skipped the records"
        return needs(f"{skipped}: it kept running and handled offset {later[0]} of {missed.name}")
    polled_first = f"{poll['process']} polled offset {missed.first} of {missed.name}"
    facts = [missed.fact({**poll, "first_offset": missed.first}, "polled", polled_first), _end_fact(missed, poll, end)]
    if own:
        facts.append(missed.committed_fact(own))
    elif assigned:
        text = f"{assigned['process']} was assigned {missed.name} with committed offset {assigned['first_offset']}:"
        facts.append(missed.fact(assigned, "assigned", f"{text} {poll['process']} {IN_BACKGROUND}"))
    elif stored:
        text = f"__consumer_offsets has committed offset {stored['offset']} of {missed.name}, which only"
        text += f" {poll['process']} had reached: it {IN_BACKGROUND}"
        facts.append(missed.stored_fact(stored, "committed", text))
    automatic = processes.get(poll["process"], {}).get("enable.auto.commit")
    prevented = ["committing only after the records are handled"]
    if automatic:
        facts.append(Fact(f"enable.auto.commit of {poll['process']} is true", "configured", source="run.json"))
        prevented.append("enable.auto.commit=false")
    return Attempt(True, ordered(facts), prevented)


def _assigned_beyond(events: pl.DataFrame, missed: Missed, poll: Event) -> Event | None:
    """The group's next assignment to another client, if its committed offset is beyond the records and only the member
    that polled them can have committed it."""
    own = pl.col("process") == poll["process"]
    since = events.filter(pl.col("time") > poll["time"])
    crashed = since.filter(own, f="crash")["time"].min()
    # After a crash the same process is another client.
    other = ~own if crashed is None else ~own | (pl.col("time") > crashed)
    assigns = since.filter(other, f="assign")
    if not assigns.height:
        return None
    assigned = assigns.row(0, named=True)
    if assigned["first_offset"] is None or assigned["first_offset"] <= missed.last:
        return None
    between = events.filter(pl.col("time").is_between(poll["time"], assigned["time"], closed="left"))
    reached = greatest(between.filter(own, f="poll")["last_offset"], -1)
    foreign = between.filter(~own & pl.col("f").is_in(["commit", "commit-info"]))
    return None if foreign.height or reached < missed.last else assigned


def _stored_beyond(events: pl.DataFrame, missed: Missed, poll: Event) -> Event | None:
    """The committed offset in `__consumer_offsets`, if it is beyond the records and only the member that polled them
    can have committed it."""
    stored = missed.stored
    if stored is None or stored["dated"] is None or stored["offset"] <= missed.last:
        return None
    # The coordinator's clock has milliseconds.
    until = events.filter(pl.col("time").is_between(poll["time"], stored["dated"] + SECOND))
    own = pl.col("process") == poll["process"]
    reached = until.filter(own, f="poll")["last_offset"].max()
    others = until.filter(~own & (pl.col("f") != "crash"))
    return None if others.height or reached != stored["offset"] - 1 else stored


def _end_of(events: pl.DataFrame, poll: Event, since: int, assigned: Event | None) -> Event | None:
    """The crash of the member that polled the records, or the assignment by which another member took over."""
    own = events.filter(pl.col("time") >= since, process=poll["process"])
    crashes = own.filter(f="crash")
    if crashes.height:
        return crashes.row(0, named=True)
    if assigned is None or own.filter(pl.col("time") >= assigned["time"]).height:
        return None
    return assigned


def _end_fact(missed: Missed, poll: Event, end: Event) -> Fact:
    offsets = f"{span(missed.first, missed.last)} of {missed.name}"
    records = f"no member of group {missed.group} had handled {offsets} ({plural(missed.count, 'record')})"
    took_over = f"took over {missed.name}, {poll['process']} did nothing more there"
    text = f"{end['process']} {'crashed' if end['f'] == 'crash' else took_over}, and {records}"
    return Fact(text, "crashed", end["time"], place=end["place"])
