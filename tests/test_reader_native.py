"""The two ways of reading native lines agree: compiled loops for great blocks, polars for the rest."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.readers import native, native_columns
from logjudge.histories.tables import EVENTS, FUNCTIONS, TYPES
from polars.testing import assert_frame_equal

Event = dict[str, Any]

texts = st.one_of(
    st.sampled_from(
        ["p0", "orders", "twelve bytes", "thirteen byte", "a longer text than a view holds", "", "ö", "日本"]
    ),
    st.text(max_size=20),
    st.integers(-(10**20), 10**20),
)
numbers = st.one_of(st.integers(-3, 100), st.sampled_from([2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**17, 10**18, 1.5]))
records = st.fixed_dictionaries(
    {"topic": st.sampled_from(["orders", "a topic of many letters"]), "partition": st.integers(0, 3)},
    optional={"offset": numbers, "value": texts, "key": texts, "timestamp": numbers, "start": numbers},
)
lists = st.lists(st.one_of(records, st.none(), st.just({})), max_size=3)
step = st.fixed_dictionaries(
    {"f": st.sampled_from(["send", "poll", "commit", "other"])},
    optional={"topic": texts, "partition": numbers, "value": texts, "records": lists, "offsets": lists, "ops": lists},
)
events = st.fixed_dictionaries(
    {},
    optional={
        "time": numbers,
        "process": texts,
        "op": numbers,
        "type": st.sampled_from([*TYPES, "okay"]),
        "f": st.sampled_from([*FUNCTIONS, "xubscribe", None]),
        "topic": texts,
        "partition": numbers,
        "offset": numbers,
        "key": st.one_of(texts, st.none()),
        "value": st.one_of(texts, st.none(), st.booleans()),
        "acks": st.sampled_from(["all", "1", "0", None]),
        "records": lists,
        "offsets": lists,
        "ops": st.lists(step, max_size=3),
        "group": st.one_of(st.booleans(), st.none()),
        "auto": st.booleans(),
        "member": texts,
        "generation": numbers,
        "assignment": lists,
        "topics": st.lists(texts, max_size=2),
        "error": texts,
        "fault": st.just({"kind": "kill", "nodes": ["1"]}),
        "own": st.one_of(texts, st.lists(st.integers())),
    },
)
plain = st.builds(
    lambda event, more: {**event, **more},
    st.just({"time": 1, "process": "p0", "op": 2, "type": "ok", "f": "poll"}),
    events,
)


def encoded(event: Event, compact: bool, ascii_only: bool) -> bytes:
    separators = (",", ":") if compact else (" , ", " :\t")
    return json.dumps(event, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


def both(blob: bytes) -> tuple[tuple[pl.DataFrame, pl.DataFrame], tuple[pl.DataFrame, pl.DataFrame]]:
    """The results of reading by lines and of scanning."""
    before, native.SCANNED_FROM = native.SCANNED_FROM, 1 << 60
    try:
        by_lines = native.parse(blob)
        native.SCANNED_FROM = 0
        return by_lines, native.parse(blob)
    finally:
        native.SCANNED_FROM = before


def test_compiled_loops_are_loaded_once_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    line = b'{"time":0,"process":"p","op":1,"type":"invoke","f":"poll"}\n'
    scanned: list[int] = []
    read = native_columns.read
    monkeypatch.setattr(native_columns, "read", lambda blob: scanned.append(len(blob)) or read(blob))
    monkeypatch.setattr(native, "_parsed", {"bytes": 0})
    monkeypatch.setattr(native, "SCANNED_FROM", 3 * 2000 * len(line))
    results = [native.parse(line * count)[0].drop("line") for count in (2000, 2000, 2000, 2000, 10)]
    assert scanned == [2000 * len(line)] * 2
    assert all(result.head(10).equals(results[-1]) for result in results)


@given(st.lists(st.tuples(st.one_of(plain, events), st.booleans(), st.booleans()), max_size=6))
def test_scanned_and_parsed_events_are_equal(lines: list[tuple[Event, bool, bool]]) -> None:
    (events_, bad), (scanned, scanned_bad) = both(b"\n".join(encoded(*line) for line in lines))
    assert_frame_equal(scanned, events_)
    assert_frame_equal(scanned_bad, bad)


@given(st.data())
def test_broken_lines_are_read_alike(data: st.DataObject) -> None:
    blob = bytearray(b"\n".join(encoded(*data.draw(st.tuples(plain, st.booleans(), st.booleans()))) for _ in range(3)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(blob) - 1))
        blob[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b"{", b"}", b'"', b",", b":", b"[", b"]", b"\\", b"\n", b"\x00", b"\xff", b"-", b"0"])
        )
    (events_, bad), (scanned, scanned_bad) = both(bytes(blob))
    assert_frame_equal(scanned, events_)
    assert_frame_equal(scanned_bad, bad)


PLAIN = b'{"time":1,"process":"p0","op":1,"type":"ok","f":"poll","records":[{"topic":"t","partition":0,"offset":3}]}'


@pytest.mark.parametrize(
    ("line", "twice"),
    [
        (PLAIN.replace(b'"op":1', b'"op":1,"op":2'), "op"),
        (PLAIN.replace(b'"offset":3', b'"offset":3,"offset":4'), "offset"),
        (PLAIN.replace(b'"op":1', b'"op":1,"own":{"a":1,"a":2}'), "a"),
        (PLAIN.replace(b'"op":1', b'"\\u006fp":1,"op":2'), "op"),
    ],
)
def test_a_key_given_twice_is_quarantined(line: bytes, twice: str) -> None:
    for events_, bad in both(PLAIN + b"\n" + line):
        assert events_["line"].to_list() == [0]
        assert bad.select("line", "reason").rows() == [(1, f"found {twice} twice in one object, expected it once")]


def test_plain_lines_are_scanned() -> None:
    """The compiled loops read plain lines, without falling back to polars."""
    steps = b'"ops":[{"f":"send","topic":"t","partition":0,"value":"v","offset":7},{"f":"poll","records":[]}]'
    lines = [PLAIN, PLAIN.replace(b'"records":[', steps + b',"records":['), PLAIN.replace(b"p0", "日本".encode())]
    scanned, left = native_columns.read(b"\n".join(lines))
    assert len(scanned) == 3
    assert scanned.schema == pl.Schema(EVENTS)
    assert not left
    assert scanned["ops"][1].struct.field("offset").to_list() == [7, None]


def test_events_stay_as_they_are_when_the_next_block_is_scanned() -> None:
    named = PLAIN.replace(b'"t"', b'"a topic with a long name"')
    steps = PLAIN.replace(
        b'"records":', b'"ops":[{"f":"send","topic":"t","partition":0,"value":"v","offset":7}],"records":'
    )
    blob = b"\n".join([PLAIN, named, steps])
    scanned, left = native_columns.read(blob)
    assert (len(scanned), left) == (3, [])
    before = scanned.rows()
    native_columns.read(blob.replace(b"p0", b"p1").replace(b"long", b"late").replace(b"3", b"8"))
    assert scanned.rows() == before
