import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError
from logjudge.histories.readers import jepsen, verifiable
from logjudge.histories.readers.lines import MAX_LINE
from logjudge.histories.tables import EVENTS, QUARANTINE
from polars.testing import assert_frame_equal

DATA = Path(__file__).parent / "data"
PRODUCER = (DATA / "verifiable-producer.jsonl").read_bytes()
CONSUMER = (DATA / "verifiable-consumer.jsonl").read_bytes()
SECOND = 1_000_000_000

# What VerifiableShareConsumer of Kafka 4.2 prints: a share group may skip and repeat records.
SHARE_CONSUMER = b"""\
{"timestamp":1795917094758,"name":"startup_complete"}
{"timestamp":1795917100176,"name":"record_data","key":null,"value":"p0-0","topic":"orders","partition":0,"offset":0}
{"timestamp":1795917105527,"name":"offsets_acknowledged","count":1,"partitions":[{"topic":"orders","partition":0,"count":1,"offsets":[0]}],"success":true}"""

PLACE = '"topic":"t","partition":2'
AT = {"topic": "t", "partition": 2}


def record(offset: int, key: str | None, value: str | None) -> dict[str, Any]:
    return AT | {"offset": offset, "key": key, "value": value, "timestamp": None}


def position(offset: int | None) -> dict[str, Any]:
    return AT | {"offset": offset, "start": None}


# A line after its timestamp 1000, the fields of the invocation, and the further fields of the completion.
CASES = [
    (
        f'"name":"producer_send_success","key":"1","value":"a","offset":5,{PLACE}',
        {"process": "producer", "f": "send", "topic": "t", "key": "1", "value": "a"},
        {"type": "ok", "partition": 2, "offset": 5},
    ),
    (
        f'"name":"producer_send_success","key":null,"value":"","offset":-1,{PLACE}',
        {"process": "producer", "f": "send", "topic": "t", "value": ""},
        {"type": "ok", "partition": 2},
    ),
    (
        f'{PLACE}, "offset": 5, "value": "\\u00e9\\n", "name": "producer_send_success"',
        {"process": "producer", "f": "send", "topic": "t", "value": "é\n"},
        {"type": "ok", "partition": 2, "offset": 5},
    ),
    (
        '"name":"producer_send_error","topic":"t","key":null,"value":"a",'
        '"exception":"class org.apache.kafka.common.errors.NetworkException","message":"Disconnected"',
        {"process": "producer", "f": "send", "topic": "t", "value": "a"},
        {"type": "info", "error": "NetworkException: Disconnected"},
    ),
    (
        '"name":"producer_send_error","topic":"t","key":"1","value":"a","exception":"X","message":null',
        {"process": "producer", "f": "send", "topic": "t", "key": "1", "value": "a"},
        {"type": "info", "error": "X"},
    ),
    (
        f'"name":"record_data","key":"1","value":"a",{PLACE},"offset":5',
        {"process": "consumer", "f": "poll"},
        {"type": "ok", "records": [record(5, "1", "a")]},
    ),
    (
        f'"name":"record_data","key":null,"value":null,{PLACE},"offset":0',
        {"process": "consumer", "f": "poll"},
        {"type": "ok", "records": [record(0, None, None)]},
    ),
    (
        f'"name":"record_data","key":"\\ud83d\\ude00","value":"a",{PLACE},"offset":5,"leaderEpoch":7',
        {"process": "consumer", "f": "poll"},
        {"type": "ok", "records": [record(5, "😀", "a")]},
    ),
    (
        f'"name":"record_data","key":"1","value":"a",{PLACE},"offset":5,"offset":6',  # the last one counts
        {"process": "consumer", "f": "poll"},
        {"type": "ok", "records": [record(6, "1", "a")]},
    ),
    (
        f'"name":"offsets_committed","offsets":[{{{PLACE},"offset":16}}],"success":true',
        {"process": "consumer", "f": "commit", "offsets": [position(16)]},
        {"type": "ok"},
    ),
    (
        f'"name":"offsets_committed","offsets":[{{{PLACE},"offset":16}}],"error":"fenced","success":false',
        {"process": "consumer", "f": "commit", "offsets": [position(16)]},
        {"type": "info", "error": "fenced"},
    ),
    (
        f'"name":"partitions_assigned","partitions":[{{{PLACE}}}]',
        {"process": "consumer", "f": "assign", "group": True, "offsets": [position(None)]},
        {"type": "ok"},
    ),
    (
        f'"name":"partitions_revoked","partitions":[{{{PLACE}}}]',
        {"process": "consumer", "f": "assign", "group": True, "revoked": True, "offsets": [position(None)]},
        {"type": "ok"},
    ),
]

SILENT = [
    "",
    " \t\r",
    '{"timestamp":1,"name":"startup_complete"}',
    '{"timestamp":1,"name":"shutdown_complete"}',
    '{"timestamp":1,"name":"tool_data","sent":600,"acked":596}',
    '{"timestamp":1,"name":"records_consumed","count":0,"partitions":[]}',
    '{"timestamp":1,"name":"partitions_assigned","partitions":[]}',
    '{"timestamp":1,"name":"partitions_revoked","partitions":[]}',
    '{"timestamp":1,"name":"something_new"}',
]

GOOD = f'{{"timestamp":1000,"name":"record_data","key":"1","value":"a",{PLACE},"offset":5}}'
MALFORMED = [
    (SHARE_CONSUMER.rpartition(b"\n")[2].decode(), "offsets_acknowledged of VerifiableShareConsumer"),
    ("{", "expected a JSON object"),
    ("[]", "found a list, expected a JSON object"),
    ("1", "found 1, expected a JSON object"),
    ("{}", "found null as name, expected a string"),
    ('{"name":5}', "found 5 as name, expected a string"),
    ("Bad data can't be written as json: x", "expected a JSON object"),
    (GOOD + "x", "expected a JSON object"),
    (GOOD.replace("1000", "null"), "found null as timestamp, expected an integer"),
    (GOOD.replace("1000", "1.0"), "found 1.0 as timestamp"),
    (GOOD.replace("1000", "true"), "found true as timestamp"),
    (GOOD.replace("1000", "9223372036855"), "found 9223372036855 as timestamp"),
    (GOOD.replace("1000", "1" * 30), "as timestamp"),
    (GOOD.replace(":5}", ":9223372036854775808}"), "found 9223372036854775808 as offset"),
    (GOOD.replace(":5}", ':"5"}'), 'found "5" as offset'),
    (GOOD.replace(":5}", ":05}"), "expected a JSON object"),
    (GOOD.replace(":5}", ":NaN}"), "expected a JSON object"),
    (GOOD.replace(":2,", ":2147483648,"), "found 2147483648 as partition"),
    (GOOD.replace(":2,", ":-1,"), "found -1 as partition"),
    (GOOD.replace('"t"', "null"), "found null as topic, expected a string"),
    (GOOD.replace('"a"', "7"), "found 7 as value, expected a string"),
    (GOOD.replace('"a"', '"\\ud800"'), "expected a JSON object"),
    (GOOD.replace('"a"', '"\x01"'), "expected a JSON object"),
    ('{"timestamp":1,"name":"offsets_committed","offsets":[],"success":1}', "found 1 as success"),
    (
        '{"timestamp":1,"name":"offsets_committed","offsets":[5],"success":true}',
        "found a list as offsets, expected a list of objects",
    ),
    ('{"timestamp":1,"name":"partitions_assigned","partitions":{}}', "found an object as partitions"),
]


def message_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize(("entries", "before", "after"), CASES)
def test_events_of_a_line(entries: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    events, malformed = verifiable.parse(f'{{"timestamp":1000,{entries}}}'.encode())
    assert malformed.is_empty()
    both = {"line": 0, "time": SECOND} | before
    invocation, completion = (message_of(row) for row in events.to_dicts())
    assert invocation == both | {"type": "invoke", "synthetic": True}
    assert completion == both | after


@pytest.mark.parametrize("line", SILENT)
def test_line_without_event(line: str) -> None:
    assert [len(frame) for frame in verifiable.parse(line.encode())] == [0, 0]


@pytest.mark.parametrize(("line", "reason"), MALFORMED)
def test_malformed_line(line: str, reason: str) -> None:
    events, malformed = verifiable.parse(f"{GOOD}\n{line}\n{GOOD}".encode())
    assert events["line"].to_list() == [0, 0, 2, 2]
    assert malformed["line"].to_list() == [1]
    assert reason in malformed["reason"][0]
    assert len(malformed["reason"][0]) < 200


@pytest.mark.parametrize(
    ("source", "process"),
    [
        ("", "consumer"),
        ("consumer-0.jsonl", "consumer-0"),
        ("/a/b.c/c1.v2.jsonl.gz", "c1.v2"),
        ("s3://bucket/run/c1.log.zst", "c1"),
        ("consumer", "consumer"),
    ],
)
def test_process_is_the_stem_of_the_file(source: str, process: str) -> None:
    events, _ = verifiable.parse(GOOD.encode(), source)
    assert events["process"].to_list() == [process, process]


def test_producer_sample() -> None:
    """69 lines; three of them make no event: the tool's start, its end, and its sums."""
    events, malformed = verifiable.parse(PRODUCER)
    assert malformed.is_empty()
    counts = dict(events.group_by("type").len().iter_rows())
    errors = PRODUCER.count(b'"producer_send_error"')
    assert counts == {"invoke": 66, "ok": 66 - errors, "info": errors}
    assert errors > 5
    assert events["process"].unique().to_list() == ["producer"]


def test_consumer_sample() -> None:
    events, malformed = verifiable.parse(CONSUMER)
    assert malformed.is_empty()
    found = events.filter(pl.col("type") == "ok")["f"].value_counts()
    expected = {
        "poll": CONSUMER.count(b'"record_data"'),
        "commit": CONSUMER.count(b'"offsets_committed"'),
        "assign": CONSUMER.count(b'"partitions_'),
    }
    assert dict(found.iter_rows()) == expected
    assert min(expected.values()) > 1


strings = st.text(max_size=4) | st.sampled_from(["7.1", "é", '"', "\\", "\x7f", "\u2028"])
objects = st.fixed_dictionaries(
    {
        "timestamp": st.sampled_from([0, 1, 1795253745865, 8999999999999, 9223372036854, 9999999999999]),
        "name": st.sampled_from(["record_data", "producer_send_success"]),
        "key": st.none() | strings,
        "value": st.none() | strings,
        "topic": strings,
        "partition": st.integers(-1, 10) | st.sampled_from([999999999, 1000000000, 2**31]),
        "offset": st.integers(-2, 10) | st.sampled_from([10**18 - 1, 10**18, 2**63]),
    }
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Lines as the tools write them, or nearly so."""
    entries = draw(objects)
    order = ["timestamp", "name", "key", "value", "topic", "partition"]
    order.insert(4 if entries["name"] == "producer_send_success" else 6, "offset")
    spaced = draw(st.sampled_from([(",", ":"), (",", ":"), (",", ":"), (", ", ": ")]))
    text = json.dumps({name: entries[name] for name in order}, separators=spaced, ensure_ascii=draw(st.booleans()))
    return text + draw(st.sampled_from(["", "", "", "\r", " ", "}"]))


NOTHING_IS_FREQUENT = r"^\b$"


def parse_one_by_one(blob: bytes) -> tuple[pl.DataFrame, pl.DataFrame]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifiable, "_FREQUENT", NOTHING_IS_FREQUENT)
        return verifiable.parse(blob)


def assert_same(found: tuple[pl.DataFrame, pl.DataFrame], expected: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    assert_frame_equal(found[0], expected[0])
    assert_frame_equal(found[1], expected[1])


@given(st.lists(lines(), max_size=8))
def test_both_paths_agree(texts: list[str]) -> None:
    blob = "\n".join(texts).encode()
    assert_same(verifiable.parse(blob), parse_one_by_one(blob))


def test_both_paths_agree_on_the_samples() -> None:
    for sample in (PRODUCER, CONSUMER):
        assert_same(verifiable.parse(sample), parse_one_by_one(sample))


def test_frequent_lines_are_read_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the tools' plain lines of records needs the slow path."""
    slow = []
    monkeypatch.setattr(verifiable, "completion", lambda line: slow.append(line))
    verifiable.parse(PRODUCER + CONSUMER)
    assert slow
    assert not [line for line in slow if b'"record_data"' in line or b'"producer_send_success"' in line]


@given(st.data())
def test_mutated_lines(data: st.DataObject) -> None:
    sample = (PRODUCER + CONSUMER).split(b"\n")[:-1]
    line = bytearray(data.draw(st.sampled_from(sample)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(line)))
        line[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from([b"", b"[", b"}", b",", b'"', b"\\", b"\x00", b"\xff", b"1", b"-", b"."])
        )
    blob = b"\n".join((GOOD.encode(), bytes(line), GOOD.encode()))
    assert_same(verifiable.parse(blob), parse_one_by_one(blob))
    assert {0, 2} <= set(verifiable.parse(blob)[0]["line"])


@given(st.binary(max_size=100) | st.recursive(st.none() | st.integers(), st.lists).map(json.dumps).map(str.encode))
def test_any_bytes(blob: bytes) -> None:
    events, malformed = verifiable.parse(blob)
    assert dict(events.schema) == EVENTS
    assert dict(malformed.schema) == QUARANTINE
    assert events.is_empty()


@given(st.lists(lines() | st.sampled_from([*SILENT, "\ufeff", "junk"]), max_size=8), st.integers(0, 8))
def test_pieces_give_the_same_as_the_whole(texts: list[str], at: int) -> None:
    first, second = ("".join(f"{text}\n" for text in part).encode() for part in (texts[:at], texts[at:]))
    parts = zip(verifiable.parse(first), verifiable.parse(second), strict=True)
    shift = pl.col("line") + len(texts[:at])
    events, malformed = (pl.concat([one, other.with_columns(shift)]) for one, other in parts)
    assert_same(verifiable.parse(first + second), (events, malformed))


BYTES = GOOD.encode()
HOSTILE = [  # bytes, lines with events, malformed lines
    (b"", [], []),
    (b"\xef\xbb\xbf" + BYTES + b"\n\xef\xbb\xbf" + BYTES, [0, 1], []),
    (BYTES + b"\r\n" + BYTES + b"\r\n", [0, 1], []),
    (BYTES + b"\n" + BYTES[:40], [0], [1]),
    (b"\x00\n" + BYTES + b"\x00\n" + BYTES, [2], [0, 1]),
    (b"\xff\n" + BYTES.replace(b'"a"', b'"\xc3"') + b"\n" + BYTES, [2], [0, 1]),
    (BYTES.replace(b'"a"', b"[" * 100_000) + b"\n" + BYTES, [1], [0]),
    (BYTES.replace(b'"a"', b'{"a":' * 1000 + b"1" + b"}" * 1000) + b"\n" + BYTES, [1], [0]),
    (BYTES.replace(b'"a"', b'"' + b"a" * MAX_LINE + b'"') + b"\n" + BYTES, [1], [0]),
    (BYTES.replace(b":5}", b":5," + b" " * (100 << 20) + b'"x":1}') + b"\n" + BYTES, [1], [0]),
]


@pytest.mark.parametrize(("blob", "numbers", "malformed"), HOSTILE)
def test_hostile_bytes(blob: bytes, numbers: list[int], malformed: list[int]) -> None:
    events, quarantined = verifiable.parse(blob)
    assert events["line"].unique(maintain_order=True).to_list() == numbers
    assert quarantined["line"].to_list() == malformed
    assert all(len(reason) < 200 for reason in quarantined["reason"])


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (PRODUCER[:1000], True),
        (CONSUMER[:1000], True),
        (b"\xef\xbb\xbf" + CONSUMER[:1000], True),
        (b"junk\n" + PRODUCER[:1000], True),
        (b'{"name": "tool_data"}', True),
        (b'{"time":1,"process":"p0","f":"send","type":"ok","name":"x"}', False),
        (b"[2026-01-01] INFO name: record_data", False),
        ((DATA / "jepsen.edn").read_bytes(), False),
        (b"", False),
        (SHARE_CONSUMER, False),
        (SHARE_CONSUMER.rpartition(b"\n")[0], False),
        (SHARE_CONSUMER.partition(b"\n")[2], False),
    ],
)
def test_recognises(head: bytes, expected: bool) -> None:
    assert verifiable.recognises(head) is expected
    assert not (expected and jepsen.recognises(head))


def test_a_share_consumer_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "producer.jsonl").write_bytes(PRODUCER)
    (tmp_path / "share.jsonl").write_bytes(SHARE_CONSUMER + b"\n")
    with pytest.raises(InputError, match=r"the output of VerifiableShareConsumer.*leave the file out of the run"):
        open_run(tmp_path)
