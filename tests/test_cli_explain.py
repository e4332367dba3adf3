"""Output of `explain` and `convert` for small histories."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import CLEAN, LOSSY, UNREAD, check, invoke, verdict_in, verdict_of_run
from logjudge.cli import output
from notation import judge


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["jepsen.edn", "verifiable-producer.jsonl", "verifiable-consumer.jsonl"])
def test_foreign_histories_keep_their_verdict_in_parquet(name: str, tmp_path: Path) -> None:
    history = Path(__file__).with_name("data") / name
    assert invoke("convert", history, tmp_path / "history.parquet").return_value == 0
    one, other = [
        json.loads(check(path, "--json", "--out", tmp_path / path.suffix).stdout)
        for path in (history, tmp_path / "history.parquet")
    ]
    for same in ("rules", "counts"):
        assert one[same] == other[same]
    assert one["input"]["dialect"] == other["input"]["dialect"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("bad", "code"), [(b"garbage\n", 3), (b'{"time": 5, "process": "p0"}\n', 3), (b'{"time": 5, "proc', 3), (b"", 0)]
)
def test_a_converted_history_is_no_more_valid_than_its_malformed_lines_permit(
    bad: bytes, code: int, tmp_path: Path
) -> None:
    source = shutil.copytree(CLEAN, tmp_path / "in")
    history = gzip.decompress((source / "history.jsonl.gz").read_bytes())
    (source / "history.jsonl.gz").unlink()
    at = len(history) if bad and not bad.endswith(b"\n") else history.index(b"\n", len(history) // 2) + 1
    (source / "history.jsonl").write_bytes(history[:at] + bad + history[at:])
    one = verdict_of_run(source)
    assert one["verdict"] == ("unknown" if bad else "valid")
    for ending in ("jsonl", "parquet"):
        target = tmp_path / ending
        target.mkdir()
        shutil.copy(source / "run.json", target)
        done = invoke("convert", source, target / f"history.{ending}")
        assert done.return_value == code
        assert ("1 line or file could not be read" in done.stderr) is bool(bad)
        other = verdict_of_run(target)
        for same in ("verdict", "rules", "counts"):
            assert one[same] == other[same]


@pytest.mark.parametrize("process", ["1", ":nemesis"])
def test_a_malformed_line_of_jepsens_nemesis_hides_no_operation_in_parquet(process: str, tmp_path: Path) -> None:
    history = (Path(__file__).with_name("data") / "jepsen.edn").read_bytes()
    line = f"{{:index 9000, :time 99000, :type :info, :process {process}, :f :kill, :value nil, :bad #{{1 1}}}}\n"
    (tmp_path / "history.edn").write_bytes(history + line.encode())
    assert invoke("convert", tmp_path / "history.edn", tmp_path / "history.parquet").return_value == 3
    one, other = [verdict_of_run(tmp_path / name) for name in ("history.edn", "history.parquet")]
    for same in ("verdict", "rules", "counts"):
        assert one[same] == other[same]


def test_an_empty_history_beside_others_keeps_a_converted_one_from_valid(tmp_path: Path) -> None:
    run = shutil.copytree(CLEAN, tmp_path / "run")
    (run / "history").mkdir()
    (run / "history.jsonl.gz").rename(run / "history" / "a.jsonl.gz")
    (run / "history" / "b.jsonl").touch()
    shutil.copy(run / "run.json", tmp_path)
    assert invoke("convert", run, tmp_path / "history.jsonl").return_value == 3
    shutil.rmtree(run)
    assert check(tmp_path, "--out", tmp_path / "o").return_value == 3


@pytest.mark.parametrize(
    ("name", "hint"), [("history.jsonl", ""), ("h.jsonl", ", and rename h.jsonl to history.jsonl")]
)
def test_convert_names_the_way_to_keep_run_json(name: str, hint: str, tmp_path: Path) -> None:
    """A lone history is judged without the run.json beside it, unless the folder is a bundle."""
    note = f"run.json was not copied, and the rules need it: copy {LOSSY / 'run.json'} beside {tmp_path / name}{hint}\n"
    assert invoke("convert", LOSSY, tmp_path / name).stderr.endswith(note)


def test_lines_left_out_of_a_jepsen_history_are_one_reason(tmp_path: Path) -> None:
    history = Path(__file__).with_name("data") / "jepsen.edn"
    report = json.loads(check(history, "--json", "--out", tmp_path / "out").stdout)
    (reason,) = [one["says"] for one in report["assumptions"] if one["name"] == "evidence sufficient"]
    assert reason.count("lines of the history are missing or could not be read") == 1


@pytest.mark.parametrize(
    ("run", "is_shown"), [("jepsen.edn", True), ("real/clean-a", False), ("real/transactions-a", True)]
)
def test_explain_names_what_only_check_searches(run: str, is_shown: bool) -> None:
    sentence = "Cycles and torn transactions are not searched here"
    assert (sentence in invoke("explain", Path(__file__).with_name("data") / run).stdout) is is_shown


def test_explain_takes_the_name_of_a_jepsen_key() -> None:
    history = Path(__file__).with_name("data") / "jepsen.edn"
    by_key, by_partition = invoke("explain", history, "0@0").stdout, invoke("explain", history, "0-0@0").stdout
    assert by_key == by_partition
    assert by_key.startswith("0-0@0")


def test_explain_finds_a_record_by_its_value_or_key(tmp_path: Path) -> None:
    by_value, by_offset = invoke("explain", LOSSY, "p0-163").stdout, invoke("explain", LOSSY, "orders-0@255").stdout
    assert by_value == by_offset
    assert "p0 sent 'p0-163'" in by_value
    history = tmp_path / "history.jsonl"
    history.write_text(KEYED)
    listed = [line.strip() for line in invoke("explain", history, "k").stdout.splitlines()]
    assert listed[:4] == [
        "k: the value or key of 3 records",
        "- x-0@0: sent by p at 0.000 s",
        "- x-0@1: sent by p at 0.000 s",
        "- no partition: sent by p at 0.000 s, which failed",
    ]
    matches = json.loads(invoke("explain", history, "k", "--json").stdout)["matches"]
    assert [(match["partition"], match["offset"]) for match in matches] == [("x-0", 0), ("x-0", 1), (None, None)]
    assert invoke("explain", history, "b").stdout.startswith("x-0@1")
    unknown = str(invoke("explain", history, "nope").exception)
    expected = "expected one of: a partition (x-0), an offset (such as x-0@4711), the value or the key of a record"
    assert f"found nope, which is no partition, and no record's value or key; {expected}" in unknown
    assert unknown.endswith("a finding (such as lost-write/x-0/0)")
    check(LOSSY, "--out", tmp_path / "out")
    for source in (LOSSY, tmp_path / "out"):
        by_range = invoke("explain", source, "orders-0@255-630")
        assert by_range.stderr.endswith("orders-0@255-630: this explains the first of these offsets, 255\n")
        by_offset = invoke("explain", source, "orders-0@255").stdout
        assert by_range.stdout == invoke("explain", source, "lost-write/orders-0/0").stdout == by_offset
        no_finding = str(invoke("explain", source, "lost-write/orders-0/7").exception)
        assert no_finding.startswith("there is no finding lost-write/orders-0/7 in this run; ")
        of_rule = str(invoke("explain", source, "lost-write").exception)
        assert of_rule.startswith("lost-write is a rule; name one of its findings: lost-write/orders-0/0, ")
        assert "did you mean orders-0@5 or orders-1@5?" in str(invoke("explain", source, "orders-9@5").exception)
        assert str(invoke("explain", source, "").exception).startswith("found an empty text; expected one of: a part")
    saved = str(invoke("explain", tmp_path / "out", "p0+163").exception)
    assert "a finding (such as lost-write/orders-0/0); to look up a value, explain the run itself" in saved


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x-0@abc", "x-0@abc: found 'abc' as offset, expected a number"),
        ("x-0:1", "x-0:1: did you mean x-0@1?"),
        ("x", "x is a topic; name one of its partitions: x-0"),
        ("y-0@1", "found y-0@1, which is no partition, and no record's value or key; did you mean x-0@1? "),
    ],
)
def test_explain_names_the_form_of_a_place(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text(KEYED)
    assert str(invoke("explain", tmp_path / "history.jsonl", text).exception).startswith(expected)


KEYED = "".join(
    json.dumps({"process": "p", "op": op, "type": kind, "f": "send", "topic": "x", "key": "k", "value": value, **more})
    + "\n"
    for op, (value, end, place) in enumerate([("a", "ok", 0), ("b", "ok", 1), ("c", "fail", None)])
    for kind in ("invoke", end)
    for more in [{"time": 2 * op + (kind != "invoke")} | ({} if place is None else {"partition": 0, "offset": place})]
)

OVERWRITTEN = (
    UNREAD
    + """{"process":"p","op":1,"type":"invoke","f":"send","topic":"x","partition":0,"value":"b","time":3}
{"process":"p","op":1,"type":"ok","f":"send","topic":"x","partition":0,"offset":0,"value":"b","time":4}
"""
)


@pytest.mark.parametrize("place", [(), ("x-0",), ("x-0@0",)])
def test_a_loss_without_a_known_cause_has_the_reason(place: tuple[str, ...], tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text(OVERWRITTEN)
    assert check(history, "--out", tmp_path / "out").return_value == 1
    for source in (history, tmp_path / "out"):
        text = invoke("explain", source, *place).stdout
        assert "lost-write: a was acknowledged at x-0@0" in text
        assert "[history.jsonl:1]" in text
        assert "The run has no broker files of its partitions, so the cause is not known." in text
        assert "no breach was found" not in text
        assert "explain the run itself" not in text


def test_the_worst_breaches_without_a_cause_are_listed(tmp_path: Path) -> None:
    history = tmp_path / "history.edn"
    lines = Path(__file__).with_name("data").joinpath("jepsen.edn").read_text().splitlines(keepends=True)
    history.write_text("".join(lines[:216]))  # all of these can be read
    text = invoke("explain", history).stdout
    rules = 4 * ["unseen:"] + 6 * ["inconsistent-offsets:"] + ["duplicate:", "int-poll-skip:"]
    assert [line.split()[1] for line in text.splitlines() if line.startswith("  - ")] == rules
    assert "… and 4 more" in text
    of_key = invoke("explain", history, "10-0").stdout
    assert "unseen: 21 was acknowledged to process 6" in of_key
    assert of_key.rstrip().endswith("Events\n  The run has no broker files that record events of this partition.")


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ((), {"causes"}),
        (("orders-0",), {"causes", "moments"}),
        (("orders-0@300",), {"causes", "sent", "read", "held", "led", "found"}),
    ],
)
def test_explain_prints_json(place: tuple[str, ...], keys: set[str]) -> None:
    explained = json.loads(invoke("explain", LOSSY, *place, "--json").stdout)
    assert keys <= set(explained)
    assert explained["causes"][0]["cause"] == "unclean-election"
    assert {"says", "source", "line"} <= set(explained["causes"][0]["chain"][0])
    assert (explained["unexplained"], explained["unexplained_left_out"], explained["why_no_cause"]) == ([], 0, [])


@pytest.mark.parametrize("place", [(), ("orders-0",), ("orders-0@255",)])
def test_findings_without_a_cause_are_in_json(place: tuple[str, ...], tmp_path: Path) -> None:
    """Without broker files no cause is proved; the text output agrees."""
    shutil.copytree(LOSSY, tmp_path / "bare", ignore=shutil.ignore_patterns("brokers"))
    check(tmp_path / "bare", "--out", tmp_path / "out")
    fresh, saved = (json.loads(invoke("explain", tmp_path / name, *place, "--json").stdout) for name in ("bare", "out"))
    first = fresh["unexplained"][0]
    assert (first["id"], first["source"]) == (
        "lost-write/orders-0/0" if place else "lost-write/orders-1/0",
        "history.jsonl.gz",
    )
    assert first["line"] > 0
    assert "place" not in first
    assert fresh["why_no_cause"] == ["The run has no broker files of its partitions, so the cause is not known."]
    assert {name: fresh[name] for name in saved} == saved
    text = " ".join(invoke("explain", tmp_path / "bare", *place).stdout.split())
    assert all(" ".join(one["says"].split()) in text for one in fresh["unexplained"][:3])
    assert fresh["why_no_cause"][0] in text


def test_results_are_explained_in_json_as_the_run_is(tmp_path: Path) -> None:
    check(LOSSY, "--out", tmp_path / "out")
    saved = json.loads(invoke("explain", tmp_path / "out", "--json").stdout)
    assert saved["causes"] == verdict_in(tmp_path / "out")["causes"]


def test_a_line_is_cited_once() -> None:
    evidence = [{"source": "h", "line": line} for line in (11, 11, 12)]
    incident = SimpleNamespace(findings=("1",), is_known=False)
    assert output._where({"findings": [{"id": "1", "evidence": evidence}]}, incident) == " [h:11, :12]"


def test_a_jepsen_history_needs_no_run_json(tmp_path: Path) -> None:
    operations = [("invoke", "send", "[[:send 0 1]]"), ("fail", "send", "[[:send 0 1]]")]
    operations += [("invoke", "poll", "[[:poll]]"), ("ok", "poll", "[[:poll {0 [[0 1]]}]]")]
    lines = [
        f"{{:index {n}, :time {n}, :type :{kind}, :process 0, :f :{f}, :value {value}}}"
        for n, (kind, f, value) in enumerate(operations)
    ]
    history = tmp_path / "history.edn"
    history.write_text("\n".join(lines))
    report = json.loads(check(history, "--json", "--out", tmp_path / "out").stdout)
    assert report["rules"]["aborted-read"]["verdict"] == "invalid"
    assert "configuration recorded" not in {assumption["name"] for assumption in report["assumptions"]}


def test_a_recorded_request_explains_an_offset_without_broker_files(tmp_path: Path) -> None:
    judge("p:a@0 p:b@1 p:c@2 delete=1 delete=2 end=3/2 final:<c@2", tmp_path)
    gone, present = (invoke("explain", tmp_path, f"x-0@{offset}").output for offset in (1, 2))
    assert "retention: a legal absence" in gone
    assert "a delete-records request deleted x-0 below offset 2" in gone
    assert "below offset 1" not in gone
    assert "a legal absence" not in present
