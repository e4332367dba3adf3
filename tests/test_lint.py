"""`logjudge lint`, and the JSON Schema of an event line."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from command_line import invoke
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from logjudge.analysis.batches import MAX_SMALL_ROWS
from logjudge.analysis.timelines import fault_kinds
from logjudge.histories.errors import InputError
from logjudge.histories.event_fields import FAULT_KINDS, MAX_ODDITIES
from logjudge.histories.event_schema import event_schema
from logjudge.histories.readers import native
from logjudge.histories.recording.recorder import Recorder
from logjudge.histories.simulation.recorder import KINDS
from logjudge.models.replication.faults.kinds import FAULTS

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "examples" / "unclean-election"
SCHEMA = Draft202012Validator(event_schema())
SAMPLES = [json.loads(line) for line in re.findall(r"^\{.*\}$", (ROOT / "docs" / "format.md").read_text(), re.M)]
FINAL = {"final": True, "processes": {"c": {"role": "final"}}}


def send(kind: str, op: int, value: object, time: int, **fields: object) -> dict[str, Any]:
    event = {"time": time, "process": "p", "op": op, "type": kind, "f": "send", "topic": "t", "partition": 0}
    return {**event, "value": value, **fields}


def poll(kind: str, time: int, *records: tuple[int, str]) -> dict[str, Any]:
    items = [{"topic": "t", "partition": 0, "offset": offset, "value": value} for offset, value in records]
    event = {"time": time, "process": "c", "op": 0, "type": kind, "f": "poll"}
    return {**event, "records": items} if items else event


def lint(folder: Path, events: list[Any], config: dict[str, Any] | None = None, *options: str) -> Result:
    (folder / "run.json").write_text(json.dumps(FINAL if config is None else config))
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    (folder / "history.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return invoke("lint", folder, *options)


CLEAN = [
    *(send("invoke", 0, "a", 10_000_000), send("ok", 0, "a", 20_000_000, offset=0)),
    *(poll("invoke", 30_000_000), poll("ok", 40_000_000, (0, "a"))),
]
AGAIN = [send("invoke", 1, "a", 50_000_000), send("ok", 1, "a", 60_000_000, offset=1)]
IN_MILLISECONDS = [event | {"time": 1_700_000_000_000 + event["time"] // 10_000_000} for event in CLEAN]
SECOND_POLL = [poll("invoke", 39_000_000) | {"op": 1}, poll("ok", 50_000_000, (0, "a")) | {"op": 1}]
AT_ONCE = [event | {"time": 1} for event in CLEAN]
IN_MICROSECONDS = [event | {"time": event["time"] // 1000} for event in CLEAN]


def test_a_clean_history_has_nothing_to_mend(tmp_path: Path) -> None:
    found = lint(tmp_path, CLEAN)
    assert found.exception is None
    assert (found.return_value, found.output) == (0, f"{tmp_path.name}: no errors found\n")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "history.jsonl:5: no JSON"),
        (send("ok", 9, "b", 50, offsets={"t": 1}), "history.jsonl:5: found an object as offsets, expected a list"),
        (send("ok", 9, "b", "soon"), 'history.jsonl:5: found "soon" as time, expected an integer of 64 bits'),
        (
            poll("ok", 50) | {"op": 9, "records": [[0, 1]]},
            "history.jsonl:5: records[0]: expected an object, found a list",
        ),
        (send("ok", 9, "b", 50), "history.jsonl:5: a completion without an invocation"),
    ],
)
def test_a_malformed_line_is_named_with_field_and_shape(tmp_path: Path, line: Any, reason: str) -> None:
    found = lint(tmp_path, [*CLEAN, line])
    assert found.return_value == 1
    assert reason in found.output


@pytest.mark.parametrize(
    ("events", "config", "warning"),
    [
        ([*CLEAN, *AGAIN], None, "1 value sent more than once"),
        (CLEAN, {}, "no final read of t-0 is recorded"),
        ([*CLEAN, send("invoke", 0, "b", 1) | {"process": "q"}], None, "no operation of 1 process ever completes (q)"),
        ([*AT_ONCE, poll("invoke", 9) | {"op": 1}], None, "all completed operations have the same time"),
        (IN_MILLISECONDS, None, "a date in milliseconds since 1970"),
        ([*CLEAN, *SECOND_POLL], None, "c had two polls open at once: are these several consumers with one name?"),
    ],
)
def test_missing_evidence_is_a_warning(tmp_path: Path, events: list[Any], config: Any, warning: str) -> None:
    found = lint(tmp_path, events, config)
    assert found.return_value == 3
    assert warning in found.output.removeprefix(f"{tmp_path.name}: warning: ")


def test_a_poll_without_records_completes(tmp_path: Path) -> None:
    empty = [poll("invoke", 50_000_000) | {"process": "d"}, poll("ok", 60_000_000) | {"process": "d", "records": []}]
    found = lint(tmp_path, [*CLEAN, *empty, poll("invoke", 70_000_000) | {"process": "d", "op": 1}])
    assert "ever completes" not in found.output


def test_a_log_within_the_process_may_be_faster_than_a_network(tmp_path: Path) -> None:
    found = lint(tmp_path, IN_MICROSECONDS)
    assert found.return_value == 0
    assert f"{tmp_path.name}: note: operations took 10,000 ns, less than a round trip within a host" in found.output
    assert "no errors found" in found.output
    assert len(json.loads(lint(tmp_path, IN_MICROSECONDS, None, "--json").stdout)["notes"]) == 1


def test_an_operation_that_ends_before_it_begins_has_no_latency(tmp_path: Path) -> None:
    found = lint(tmp_path, [send("invoke", 0, "a", 20_000_000), send("ok", 0, "a", 10_000_000, offset=0), *CLEAN[2:]])
    assert "1 operation completed before being invoked" in found.output
    assert "operations took" not in found.output


def test_many_malformed_lines_are_counted_and_all_printed_on_request(tmp_path: Path) -> None:
    events = [*CLEAN, *["nothing"] * 25]
    assert lint(tmp_path, events).output.endswith("5 more malformed lines; --all prints them\n")
    assert lint(tmp_path, events, None, "--all").output.count("no JSON") == 25
    printed = json.loads(lint(tmp_path, events, None, "--json").stdout)
    assert [line["line"] for line in printed["malformed"]] == list(range(5, 30))


def test_several_histories_end_with_the_worst_code(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    lint(tmp_path / "bad", [*CLEAN, "nothing"])
    found = invoke("lint", tmp_path / "bad", RECORDED)
    assert found.return_value == 1
    assert "unclean-election: no errors found" in found.output


def test_brokers_files_alone_are_refused() -> None:
    error = invoke("lint", RECORDED / "brokers").exception
    assert isinstance(error, InputError)
    assert "found no events of clients, only brokers' files, expected a history" in str(error)


def test_the_schema_is_printed_and_accepts_recorded_lines_and_samples() -> None:
    printed = invoke("lint", "--schema").output
    assert json.loads(printed) == event_schema()
    Draft202012Validator.check_schema(event_schema())
    recorded = [json.loads(line) for line in gzip.decompress((RECORDED / "history.jsonl.gz").read_bytes()).splitlines()]
    for event in [*SAMPLES, *recorded]:
        SCHEMA.validate(event)
    assert {event["f"] for event in SAMPLES} == {*event_schema()["properties"]["f"]["enum"]}


FRACTIONS = st.floats(-9, 9).filter(lambda number: not number.is_integer())  # JSON Schema takes 1.0 as an integer
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 2**64), st.text(max_size=3), FRACTIONS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["topic", "f"]), inner, max_size=2),
    max_leaves=3,
)
FIELDS = sorted(event_schema()["properties"])


@given(st.sampled_from(SAMPLES), st.sampled_from(FIELDS), JSON)
@example(SAMPLES[0], "time", True)
@example(SAMPLES[0], "offset", -1)
def test_the_reader_takes_every_line_that_the_schema_accepts(event: dict[str, Any], field: str, value: Any) -> None:
    changed = {**event, field: value}
    events, malformed = native.parse(json.dumps(changed).encode())
    assert not SCHEMA.is_valid(changed) or (len(events), len(malformed)) == (1, 0)


@pytest.mark.parametrize(
    ("field", "value"), [("time", "soon"), ("offsets", {"t": 1}), ("records", [[0, 1]]), ("f", "x")]
)
def test_the_schema_refuses_what_the_reader_refuses(field: str, value: object) -> None:
    changed = {**SAMPLES[0], field: value}
    assert not SCHEMA.is_valid(changed)
    assert len(native.parse(json.dumps(changed).encode())[1]) == 1


def test_a_clock_that_was_set_back_is_named(tmp_path: Path) -> None:
    day = 86_400 * 10**9
    events = [
        send(kind, op, f"v{op}", op * 10**7 + (kind == "ok") * 10**6 - 3 * day * (op >= 30), **about)
        for op in range(60)
        for kind, about in (("invoke", {}), ("ok", {"offset": op}))
    ]
    found = lint(tmp_path, [*events, *CLEAN[2:3], poll("ok", 40_000_000, *((op, f"v{op}") for op in range(60)))])
    assert found.return_value == 3
    assert (
        "the times of a process go back, first at history.jsonl:61 (p by 71 hours): was a clock set back?"
        in found.output
    )


@pytest.mark.parametrize(
    ("end", "is_cut"), [('{"time": 1, "pro', True), ('{"time": 1, "pro\n', False), ("{}", False), ("", False)]
)
def test_a_line_in_which_the_file_ends_is_named(end: str, is_cut: bool, tmp_path: Path) -> None:
    lines = [*(json.dumps(event) for event in CLEAN), "no line", end]
    (tmp_path / "h.jsonl").write_text("\n".join(lines))
    output = invoke("lint", tmp_path / "h.jsonl").output
    assert output.count("the file ends here without a line feed: was it cut") == is_cut
    assert "h.jsonl:5: no JSON" in output
    assert 'as there is no run.json with "final": true' in output


def renamed(event: dict[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in event.items()}


def record(**about: object) -> dict[str, Any]:
    return CLEAN[3] | {"records": [{"topic": "t", "partition": 0, "offset": 0, "value": "a", **about}]}


TOMBSTONES = [{**event, "value": None} for event in CLEAN[:2]]


@pytest.mark.parametrize(
    ("events", "warning"),
    [
        (
            [renamed(event, value="vlaue") for event in CLEAN],
            "unknown field vlaue in 2 lines, first at history.jsonl:1: did you mean value?",
        ),
        (
            [*CLEAN[:3], renamed(CLEAN[3], records="recrods")],
            "unknown field recrods in 1 line, first at history.jsonl:4: did you mean records?",
        ),
        ([CLEAN[0], renamed(CLEAN[1], offset="ofset"), *CLEAN[2:]], "unknown field ofset in 1 line"),
        ([*CLEAN[:3], record(timestmp=1)], "unknown field timestmp in 1 line"),
        ([*TOMBSTONES, *CLEAN[2:]], "no send to t has a value: are all of them tombstones?"),
        ([event | {"value": {"a": 1}} for event in CLEAN[:2]], "an object as value in 2 lines, first at"),
        ([event | {"value": True} for event in CLEAN[:2]], "true or false as value in 2 lines, first at"),
        ([*CLEAN[:3], record(value=1.5)], "a fraction as value in 1 line, first at history.jsonl:4: expected text or"),
        ([event | {"process": 7} for event in CLEAN], "an integer as process in 4 lines, first at history.jsonl:1"),
        ([CLEAN[0] | {"acks": "2"}, *CLEAN[1:]], "acks 2 in 1 line, first at history.jsonl:1: expected all, 1 or 0;"),
        ([*CLEAN, {**CLEAN[0], "f": "fault", "process": "n"}], "a fault without an object as fault in 1 line"),
        ([*CLEAN, {**CLEAN[0], "f": "heal", "process": "n", "fault": "kill"}], "a heal without an object as fault"),
    ],
)
def test_what_the_format_does_not_have_is_a_warning(tmp_path: Path, events: list[Any], warning: str) -> None:
    found = lint(tmp_path, events)
    assert found.return_value == 3
    assert f"{tmp_path.name}: warning: {warning}" in found.output


@pytest.mark.parametrize("value", ["vlaue", "value"])
def test_sends_of_a_large_partition_may_lack_values(tmp_path: Path, value: str) -> None:
    sends = [send(kind, op, f"v{op}", op, offset=op) for op in range(MAX_SMALL_ROWS + 1) for kind in ("invoke", "ok")]
    found = lint(tmp_path, [renamed(event, value=value) for event in sends])
    assert found.exception is None
    assert ("no send to t has a value" in found.output) == (value == "vlaue")


def fault(**about: object) -> list[dict[str, Any]]:
    event = {"time": 10_000_000, "process": "nemesis", "op": 0, "type": "invoke", "f": "fault", "fault": about}
    return [event, {name: value for name, value in event.items() if name != "fault"} | {"type": "ok"}, *CLEAN]


@pytest.mark.parametrize(
    ("events", "code", "sentence"),
    [
        (
            fault(kind="kil", nodes=["1"]),
            3,
            "warning: unknown kind of fault kil in 1 line, first at history.jsonl:1: did",
        ),
        (
            fault(kind="kill", node="1"),
            3,
            "warning: unknown field node in a fault in 1 line, first at history.jsonl:1: did",
        ),
        (fault(kind="delete-records", topic="t", ofsets={}), 3, "did you mean offsets?"),
        (fault(kind="kill", nodes="1"), 3, "warning: text as nodes of a fault in 1 line"),
        (fault(nodes=["1"]), 3, "warning: a fault without kind in 1 line"),
        (fault(kind="comet", nodes=["1"], size=2), 0, "note: unknown kind of fault comet in 1 line"),
    ],
)
def test_a_fault_that_causes_do_not_know_is_named(tmp_path: Path, events: list[Any], code: int, sentence: str) -> None:
    found = lint(tmp_path, events)
    assert (found.return_value, sentence in found.output) == (code, True)
    assert "unknown field size" not in found.output


def test_the_kinds_of_faults_that_logjudge_knows_are_not_odd() -> None:
    simulated = {KINDS.get(kind, kind) for kind in FAULTS}
    assert {*fault_kinds.STOPS, *fault_kinds.AT_ONCE, *simulated} <= {*FAULT_KINDS}


@pytest.mark.parametrize(
    "events",
    [
        [event | {"trace": "x"} for event in CLEAN],
        [event | {"time_ms": 1} for event in CLEAN],
        [*CLEAN[:3], record(leader_epoch=1, serialized_size=9)],
    ],
)
def test_a_field_of_the_recorders_own_is_a_note_at_most(tmp_path: Path, events: list[Any]) -> None:
    found = lint(tmp_path, events)
    assert (found.return_value, "warning" in found.output) == (0, False)
    assert re.search("note: unknown field (trace|time_ms|serialized_size) in", found.output)
    assert "leader_epoch" not in found.output


def test_fields_with_many_names_are_not_all_named(tmp_path: Path) -> None:
    found = lint(tmp_path, [*CLEAN, *(send("ok", 0, "a", 1) | {f"x{number}": 1} for number in range(99))], None)
    assert found.output.count("unknown field") == MAX_ODDITIES


def test_samples_and_lines_of_a_recorder_have_no_odd_fields(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.fault("kill", nodes="1").ok()
    recorder.send("p", "t", 7, key=b"k", acks=-1, timestamp=1).ok(0, 0)
    recorder.finish()
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(event) + "\n" for event in SAMPLES))
    for path in (tmp_path / "run", tmp_path / "samples.jsonl"):
        assert not re.search("unknown field|expected", invoke("lint", path).output)
