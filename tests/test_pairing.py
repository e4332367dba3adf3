"""Invocations are paired with completions by process and op, whatever the numbers of the ops."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.pairing import PLACED_EVENTS, pair

OPS = (0, 1, 2, 3, 10**7, 10**7 + 1, 2**62, 2**63 - 1, -1, -(2**63))


class Event(NamedTuple):
    process: str
    op: int | None
    type: str


def table(events: list[Event]) -> pl.DataFrame:
    rows = [{**one._asdict(), "place": place, "time": place, "f": "send"} for place, one in enumerate(events)]
    return pl.DataFrame(rows, {name: PLACED_EVENTS[name] for name in (*Event._fields, "place", "time", "f")})


EVENT = st.builds(Event, st.sampled_from("abc"), st.sampled_from(OPS), st.sampled_from(["invoke", "ok", "info"]))


@given(st.lists(EVENT, max_size=12))
def test_the_first_events_of_an_op_are_paired_and_others_are_malformed(events: list[Event]) -> None:
    places: dict[tuple[str, int | None, bool], list[int]] = defaultdict(list)
    for place, event in enumerate(events):
        places[event.process, event.op, event.type == "invoke"].append(place)
    first = {key: found[0] for key, found in places.items()}
    completed = {(process, op): place for (process, op, is_invoked), place in first.items() if not is_invoked}
    paired = {place: first.get((*key, True)) for key, place in completed.items()}
    operations = {(invoked, place) for place, invoked in paired.items() if invoked is not None}
    found = pair(table(events), "native")
    assert {*found.operations.select("invoked_at", "at").iter_rows()} == operations
    assert {*found.malformed["place"]} == {place for repeated in places.values() for place in repeated[1:]}
    both = {place for operation in operations for place in operation}
    assert found.unpaired["place"].to_list() == sorted({*first.values()} - both)


def test_without_op_an_event_pairs_with_the_next_of_its_process() -> None:
    events = [Event("a", None, "invoke"), Event("b", None, "invoke"), Event("a", None, "ok"), Event("b", None, "ok")]
    found = pair(table([*events, *events]), "native")
    assert sorted(found.operations.select("invoked_at", "at").iter_rows()) == [(0, 2), (1, 3), (4, 6), (5, 7)]
