"""Jepsen's reader: the events of each line. Reading by columns and line by line (the general path) must agree."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from campaign import examples
from hypothesis import given
from hypothesis import strategies as st
from jepsen_lines import COMMON, EVENT, EVENT_OF, HEAD, MALFORMED, TEXTS
from logjudge.histories.readers import edn, jepsen, jepsen_columns
from logjudge.histories.readers.jepsen_operations import event, text_of
from logjudge.histories.readers.lines import MAX_LINE, MalformedError
from logjudge.histories.tables import EVENTS, QUARANTINE
from polars.testing import assert_frame_equal

SAMPLE = (Path(__file__).parent / "data" / "jepsen.edn").read_bytes()


def one_by_one(blob: bytes) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The events and malformed lines that the general path returns."""
    rows, malformed = [], []
    for number, line in enumerate(blob.split(b"\n")):
        try:
            row = event(line)
        except MalformedError as error:
            malformed.append({"line": number, "reason": str(error), "of_nemesis": error.of_nemesis})
        else:
            rows += [] if row is None else [{"line": number, **row}]
    return pl.DataFrame(rows, schema=EVENTS), pl.DataFrame(malformed, schema=QUARANTINE)


def assert_same(found: tuple[pl.DataFrame, pl.DataFrame], expected: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    assert_frame_equal(found[0], expected[0])
    assert_frame_equal(found[1], expected[1])


def assert_reads_like_the_general_path(blob: bytes) -> None:
    assert_same(jepsen.parse(blob), one_by_one(blob))


def check(line: str, expected: dict[str, Any] | None) -> None:
    events, malformed = jepsen.parse(line.encode())
    assert malformed.is_empty()
    found = [{name: value for name, value in row.items() if value is not None} for row in events.to_dicts()]
    for row in found:
        if "fault" in row:
            row["fault"] = json.loads(row["fault"])
    assert found == ([] if expected is None else [{"line": 0, **expected}])
    assert_reads_like_the_general_path(line.encode())


@pytest.mark.parametrize(("tail", "expected"), EVENT_OF)
def test_event_of_an_operation(tail: str, expected: dict[str, Any] | None) -> None:
    check(f"{{{HEAD}, {tail}}}", None if expected is None else COMMON | expected)


@pytest.mark.parametrize(("line", "expected"), EVENT)
def test_event_of_a_line(line: str, expected: dict[str, Any] | None) -> None:
    check(line, expected)


@pytest.mark.parametrize(("line", "reason"), MALFORMED)
def test_malformed_line(line: str, reason: str) -> None:
    good = f"{{{HEAD}, :f :crash, :value nil}}"
    events, malformed = jepsen.parse(f"{good}\n{line}\n{good}\n".encode())
    assert events["line"].to_list() == [0, 2]
    assert malformed["line"].to_list() == [1]
    assert reason in malformed["reason"][0]
    assert "expected" in malformed["reason"][0]
    assert_reads_like_the_general_path(line.encode())


@pytest.mark.parametrize(("form", "text"), TEXTS)
def test_text_of_a_scalar(form: str, text: str) -> None:
    assert text_of(edn.loads(form)) == text
    check(
        f"{{{HEAD}, :f :send, :value [[:send {form} [0 {form}]]]}}",
        COMMON | {"f": "send", "topic": text, "partition": 0, "offset": 0, "value": text},
    )


scalars = st.sampled_from(["1", "-1", "0", "1.0", "nil", "true", ":a", ":b1", ":nil", ":true", ":1", "a", '"a"', '"1"'])
scalars |= st.text(max_size=5).map(edn.dumps) | st.text("ab :\\'#\"1", max_size=5).map(edn.dumps)


@given(st.lists(scalars, min_size=2, max_size=2, unique=True))
def test_different_scalars_have_different_texts(pair: list[str]) -> None:
    one, other = (edn.loads(text) for text in pair)
    assert text_of(one) != text_of(other)


def test_sample_is_read_as_columns() -> None:
    lines = SAMPLE.split(b"\n")[:-1]
    _, read = jepsen_columns.read(lines)
    left = [line for line, done in zip(lines, read, strict=True) if not done]
    assert len(left) == SAMPLE.count(b":nemesis") + SAMPLE.count(b":seek-to-beginning? true")
    assert all(b":nemesis" in line or b":seek-to-beginning? true" in line for line in left)


def test_sample() -> None:
    events, malformed = jepsen.parse(SAMPLE)
    assert malformed.is_empty()
    assert events.height == SAMPLE.count(b"\n") - SAMPLE.count(b":f :debug-topic-partitions")
    values = events["records"].list.explode(empty_as_null=False).struct.field("value").len()
    assert values > 0
    assert_reads_like_the_general_path(SAMPLE)


@pytest.mark.parametrize(
    "order",
    [
        (":type", ":f", ":value", ":time", ":process", ":index"),
        (":type", ":f", ":value", ":process", ":time", ":index"),
        (":type", ":f", ":value", ":process", ":time"),
        (":process", ":type", ":f", ":value", ":time", ":index"),
        (":time", ":type", ":process", ":f", ":value"),
    ],
)
def test_orders_of_entries(order: tuple[str, ...]) -> None:
    """Older Jepsens write an operation's entries in other orders, annotations in the middle."""
    lines = []
    for line in SAMPLE.split(b"\n")[:-1]:
        entries = edn.loads(line.decode())
        names = [edn.Keyword(name[1:]) for name in order]
        notes = [name for name in entries if name not in names and name.name != "index"]
        ordered = [*names[:-1], *notes, names[-1]]
        lines.append(edn_map([(name, entries[name]) for name in ordered]))
    blob = "\n".join(lines).encode()
    assert_reads_like_the_general_path(blob)
    _, read = jepsen_columns.read(blob.split(b"\n"))
    assert read.mean() > 0.8


def edn_map(entries: list[tuple[Any, Any]]) -> str:
    return "{" + ", ".join(f"{edn.dumps(name)} {edn.dumps(value)}" for name, value in entries) + "}"


# Lines near the border between the two paths: common ones, and ones that only the general path reads.
def vectors(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, max_size=4).map(lambda texts: f"[{' '.join(texts)}]")


def operations(
    keys: st.SearchStrategy[str], values: st.SearchStrategy[str], offsets: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    """The :f and :value of operations."""
    pairs = st.builds("[{} {}]".format, offsets, values)
    sends = st.builds("[:send {} {}]".format, keys, values | pairs)
    polled = st.lists(st.builds("{} {}".format, keys, vectors(pairs)), max_size=3)
    polls = st.just("[:poll]") | polled.map(lambda entries: f"[:poll {{{', '.join(entries)}}}]")
    nil = st.just("nil")
    return (
        st.builds(":f :send, :value {}".format, vectors(sends) | nil)
        | st.builds(":f :poll, :value {}".format, vectors(polls) | nil)
        | st.builds(":f {}, :value {}".format, st.sampled_from([":txn", ":send"]), vectors(sends | polls))
        | st.builds(
            ":f {}, :value {}".format,
            st.sampled_from([":assign", ":subscribe", ":debug-topic-partitions", ":crash"]),
            vectors(keys) | nil,
        )
    )


small = st.integers(0, 12).map(str)
odd = st.sampled_from(["-1", "-0", "007", "1N", "0x1", str(10**18), str(2**63), "9" * 30, "1.5"])
odd_keys = st.sampled_from([":nil", ":true", ":time", ":send", ":a/b", "nil", '"x"'])
odd_values = st.sampled_from(["nil", ":a", '"a"', "\\a", "true"])
keys = st.integers(0, 3).map(str) | st.sampled_from([":x", ":y"])
common = operations(keys, small, small | st.just("nil"))
uncommon = operations(keys | odd_keys | odd, small | odd_values | odd, small | st.just("nil") | odd)
types = st.sampled_from(["invoke", "ok", "fail", "info"])
notes = st.sampled_from(
    [
        "",
        ", :error :timeout",
        ', :error [:unknown "a } b"]',
        ", :error {:a 1}, :rebalance-log [{:keys [1 :x]}]",
        ", :rebalance-log []",
        ", :seek-to-beginning? true",
        ", :time 5",
        ", :f :txn",
        ", :index 7",
        ", :a ; }",
        ", :a",
        ", :a 1} {:b 1",
        " , :a 1",
        ", :error é",
        "\r",
    ]
)
lines = st.builds(
    "{{:index {}, :time {}, :type :{}, :process {}, {}}}".format, small, small, types, small, common
) | st.builds(
    "{{{}:time {}, :type :{}, :process {}, {}{}}}{}".format,
    st.builds(":index {}, ".format, small | odd) | st.just(""),
    small | odd,
    types | st.just("maybe"),
    small | st.sampled_from([":nemesis", "nil", "1.0"]),
    common | uncommon,
    notes,
    st.sampled_from(["", "", "\r", " ", " 1"]),
)


@examples(100, 2000)
@given(st.lists(lines, max_size=12))
def test_both_paths_agree(texts: list[str]) -> None:
    assert_reads_like_the_general_path("\n".join(texts).encode())


@given(st.data())
def test_mutated_lines(data: st.DataObject) -> None:
    """Bytes of real lines changed, removed or put in: both paths agree, and other lines stay as they are."""
    sample = SAMPLE.split(b"\n")[:-1]
    at = data.draw(st.integers(0, len(sample) - 1))
    line = bytearray(sample[at])
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(line)))
        line[position : position + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from(
                [b"", b"[", b"]", b"{", b"}", b" ", b",", b":", b'"', b"nil", b"\x00", b"\xff", b"1", b"#_"]
            )
        )
    blob = b"\n".join((sample[0], bytes(line), sample[-1]))
    assert_reads_like_the_general_path(blob)
    events, malformed = jepsen.parse(blob)
    assert {0, 2} <= set(events["line"])
    assert events.height + malformed.height >= 2


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes(blob: bytes) -> None:
    events, malformed = jepsen.parse(blob)
    assert dict(events.schema) == EVENTS
    assert dict(malformed.schema) == QUARANTINE
    assert_reads_like_the_general_path(blob)


def shifted(frame: pl.DataFrame, by: int) -> pl.DataFrame:
    return frame.with_columns(pl.col("line") + by)


@given(st.lists(lines | st.sampled_from(["", "\r", "\ufeff", "junk"]), max_size=8), st.integers(0, 8))
def test_pieces_give_the_same_as_the_whole(texts: list[str], at: int) -> None:
    first, second = ("".join(f"{text}\n" for text in part).encode() for part in (texts[:at], texts[at:]))
    parts = zip(jepsen.parse(first), jepsen.parse(second), strict=True)
    events, malformed = (pl.concat([one, shifted(other, len(texts[:at]))]) for one, other in parts)
    assert_same(jepsen.parse(first + second), (events, malformed))


def test_many_blocks_give_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = jepsen.parse(SAMPLE)
    monkeypatch.setattr(jepsen, "_BLOCK", 1000)
    assert_same(jepsen.parse(SAMPLE), whole)


GOOD = f"{{{HEAD}, :f :crash, :value nil}}".encode()
HOSTILE = [  # bytes, lines with events, malformed lines
    (b"", [], []),
    (b"\n\n", [], []),
    (b"\xef\xbb\xbf" + GOOD, [0], []),
    (b"\xef\xbb\xbf" + GOOD + b"\n\xef\xbb\xbf" + GOOD, [0, 1], []),
    (GOOD + b"\r\n" + GOOD + b"\r\n", [0, 1], []),
    (GOOD + b"\n" + GOOD[:30], [0], [1]),
    (b"\x00\n" + GOOD + b"\x00\n" + GOOD, [2], [0, 1]),
    (b"\xff\xfe\n" + GOOD + b"\xc3\n" + GOOD, [2], [0, 1]),
    (b'{:error "\xc3\xa9", ' + GOOD[1:], [0], []),
    (GOOD.replace(b"nil", b"[" * 100_000) + b"\n" + GOOD, [1], [0]),
    (GOOD.replace(b":process 3", b":process " + b"3" * 10_000), [], [0]),
    (GOOD.replace(b":time 50", b":time " + b"9" * 30), [], [0]),
    (GOOD.replace(b"nil", b"[1 " * 50 + b"]" * 50), [0], []),
    (GOOD.replace(b"nil", b" " * MAX_LINE + b"nil") + b"\n" + GOOD, [1], [0]),
]


@pytest.mark.parametrize(("blob", "lines", "malformed"), HOSTILE)
def test_hostile_bytes(blob: bytes, lines: list[int], malformed: list[int]) -> None:
    events, quarantined = jepsen.parse(blob)
    assert events["line"].to_list() == lines
    assert quarantined["line"].to_list() == malformed
    assert quarantined["reason"].str.len_chars().fill_null(0).max() in (None, *range(200))


def test_line_of_100_megabytes() -> None:
    events, malformed = jepsen.parse(GOOD + b"\n{:value [" + b"1 " * (50 << 20) + b"]}\n" + GOOD)
    assert events["line"].to_list() == [0, 2]
    assert malformed["line"].to_list() == [1]
    assert "found a line of 104857611 bytes" in malformed["reason"][0]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (SAMPLE[: 1 << 16], True),
        (b"\xef\xbb\xbf" + SAMPLE[:200], True),
        (b"junk\n\n" + SAMPLE[:500], True),
        (b"{:process 0, :type :invoke, :f :txn, :value [[:poll]]}", True),
        (b"{:process 0, :type :invoke, :f :read, :value nil}", False),
        (b"{:process 0, :type :invoke, :f :txn, :value [[:r 1 nil]]}", False),
        (b'{"time":1,"process":"p0","f":"send"}', False),
        (b'{"value":"{:f :send}"}', False),
        (b"INFO jepsen.util: 0 :invoke :send [[:send 1 1]]", False),
        (b"", False),
        (b"\x00\xff\xfe", False),
    ],
)
def test_recognises(head: bytes, expected: bool) -> None:
    assert jepsen.recognises(head) is expected


ERROR = '#error {\n :cause "gone {"\n :via\n [{:type java.net.SocketException}]}'
SEVERAL_LINES = [
    "{:index 3,\n :time 5,\n :type :ok,\n :process 1,\n :f :poll,\n :value\n [[:poll\n   {1 [[0 7]]}]]}",
    f"{{:index 3, :time 5, :type :info, :process 1, :f :crash, :value nil, :exception {ERROR}}}",
    " {:index 3,\n  :time 5, :type :info, :process 1, :f :crash}\n {:index 4, :time 6,\n  :type :ok"
    " :process 2 :f :crash}",
]


@pytest.mark.parametrize("text", SEVERAL_LINES)
def test_an_operation_of_several_lines_is_an_event_of_the_first(text: str) -> None:
    line = b"{:index 2, :time 1, :type :invoke, :process 1, :f :poll, :value [[:poll]]}\n"
    events, malformed = jepsen.parse(line + text.encode() + b"\n" + line)
    assert malformed.is_empty()
    starts = [1 + text.count("\n", 0, found.start()) for found in re.finditer(r"(?<=\{):index", text)]
    assert events["line"].to_list() == [0, *starts, 2 + text.count("\n")]
    first = " ".join(text[: text.find(" {", 1) if text.startswith(" ") else len(text)].split())
    assert {**events.row(1, named=True), "line": 0} == {**one_by_one(first.encode())[0].row(0, named=True), "line": 0}


def test_a_cut_operation_does_not_hide_the_next_ones() -> None:
    whole = b"{:time 1, :type :ok, :process 1, :f :crash}\n"
    events, malformed = jepsen.parse(b"{:time 0,\n :type :ok, :process\n" + whole + b" {:time 2\n" + whole)
    assert events["line"].to_list() == [2, 4]
    assert malformed["line"].to_list() == [0, 1, 3]


def test_a_malformed_operation_of_several_lines_is_one_error() -> None:
    _, malformed = jepsen.parse(b"{:time 0,\n :type :maybe,\n :process 1 :f :crash}\n")
    assert malformed["line"].to_list() == [0]
    assert "found :type :maybe" in malformed["reason"][0]


def test_an_operation_of_several_lines_is_not_cut_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jepsen, "_BLOCK", 3)
    text = "\n".join([*SEVERAL_LINES[:2]] * 3)
    events, malformed = jepsen.parse(text.encode())
    assert (len(events), len(malformed)) == (6, 0)


def test_recognises_operations_of_several_lines() -> None:
    assert jepsen.recognises(SEVERAL_LINES[0].encode())
    assert not jepsen.recognises(b"{:valid? false,\n :workload {:valid? false}}\n")
    assert not jepsen.recognises(b"{:index 0,\n :f :txn, :value [[:append 1 1]]}\n")
