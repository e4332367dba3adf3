"""Elle's own examples (its test suite and its paper, as data), and histories that are odd, hostile or unclear."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import logjudge
import pytest
from command_line import invoke
from hypothesis import given, settings
from hypothesis import strategies as st
from logjudge.analysis.rules import ANOMALIES
from logjudge.analysis.transactions.consistency_models import DEMANDED, MODELS, boundary, forbidden_by
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.readers import READERS, recognise
from test_elle import judged

_STEP = re.compile(r"([arw])([a-z])(\[[\d ]*\]|\d*|_)")


def steps_of(text: str) -> tuple[list[str], list[str]]:
    """The micro-operations of an invocation and its completion: ax1 appends, wx1 writes, rx12 and rx[10 2] read."""
    invoked, done = [], []
    for f, key, value in _STEP.findall(text):
        if f in "aw":
            invoked.append(f"[:{'append' if f == 'a' else 'w'} :{key} {value}]")
            done.append(invoked[-1])
            continue
        items = value if value.startswith("[") else f"[{' '.join(value)}]"
        invoked.append(f"[:r :{key} nil]")
        done.append(
            f"[:r :{key} {items}]" if "a" in text or "[" in value or len(value) != 1 else f"[:r :{key} {value}]"
        )
    return invoked, done


def history_of(*txns: str, is_register: bool = False) -> list[str]:
    """The lines of transactions `process outcome steps`: all overlap, or `>` before one: the others ended before."""
    lines: list[str] = []
    waiting: list[str] = []
    for number, txn in enumerate(txns):
        later, process, outcome, steps = re.fullmatch(r"(>?)(?:(\d+) )?(?:(fail|info) )?(.+)", txn).groups()  # type: ignore[union-attr]
        invoked, done = steps_of(steps)
        if is_register:
            done = [re.sub(r"\[(\d+)\]\]", r"\1]", step).replace("[]]", "nil]") for step in done]
            done = [step.replace("[_]", "nil") for step in done]
        else:
            done = [re.sub(r"(\[:r :\w) (\d)\]", r"\1 [\2]]", step) for step in done]
        if later:
            lines, waiting = [*lines, *waiting], []
        who = process or str(number)
        lines.append(f"{{:type :invoke, :f :txn, :value [{' '.join(invoked)}], :process {who}}}")
        waiting.append(f"{{:type :{outcome or 'ok'}, :f :txn, :value [{' '.join(done)}], :process {who}}}")
    return [*lines, *waiting]


# From test/elle/list_append_test.clj and the paper: the transactions, the anomalies, the weakest models ruled out.
LISTS: dict[str, tuple[tuple[str, ...], set[str], set[str]]] = {
    "G0": (("ax1ay1", "ax2ay2", "rx12ry21"), {"G0"}, {"read-uncommitted"}),
    "G1a": (("fail ax1", "rx1"), {"G1a"}, {"read-committed"}),
    "G1b": (("ax1ax2", "rx1"), {"G1b", "G-single-item"}, {"read-committed"}),
    "G1c": (("ax1ry1", "ax2ay1", "rx12ry1"), {"G1c"}, {"read-committed"}),
    "G-single": (("ax1ay1", "ax2ry", "rx12"), {"G-single-item"}, {"consistent-view", "repeatable-read"}),
    "G2": (("ax1ry", "ay1rx"), {"G2-item"}, {"repeatable-read"}),
    "real time": ((">ax1", ">ax2", ">rx1", ">rx12"), {"G-single-item-realtime"}, {"strong-snapshot-isolation"}),
    "process": (
        (">0 ax1", ">1 ax2", ">1 rx1", ">2 rx12"),
        {"G-single-item-process"},
        {"strong-session-snapshot-isolation"},
    ),
    "nonadjacent process": (
        ("0 rxrz1", ">1 ax1", ">1 rz", "2 az1"),
        {"G-nonadjacent-item-process", "G1c-realtime"},
        {"strong-read-committed", "strong-session-snapshot-isolation"},
    ),
    "contradictory orders": (
        ("ax1ry1", "ax2", "ax3ay1", "rx13", "rx123"),
        {"incompatible-order", "G1c"},
        {"read-committed"},
    ),
    "dirty update": (("fail ax1", "ax2", "rx12"), {"dirty-update", "G1a"}, {"read-committed"}),
    "indirect dirty update": (("fail ax1", "info ax2", "ax3", "rx123"), {"dirty-update", "G1a"}, {"read-committed"}),
    "duplicates": (("ax1ry1", "ax2ay1", "rx121"), {"duplicate-elements", "G1c"}, {"read-uncommitted"}),
    "internal": (("ax1ax2ax4", "ax3rx1234"), {"internal", "G0"}, {"read-uncommitted"}),
    "internal, stale": (("ax1ax2", "rx12ax3rx12"), {"internal"}, {"read-atomic"}),
    "unobserved writes": (("ax1ay1", "ax2ay2", "ax3ay3", "rx12", "ry2"), {"G0"}, {"read-uncommitted"}),
    "G-nonadjacent": (
        ("ax1", "rx1ry", "ay1", "ry1rx"),
        {"G-nonadjacent-item"},
        {"repeatable-read", "snapshot-isolation"},
    ),
    "no cycle": (("rx5ay1", "ryaz2", "rzat3", "rt3au4", "ruax5"), set(), set()),
    "lost update": (
        ("ax0", "rx0ax1", "rx0ax2"),
        {"lost-update", "G2-item"},
        {"cursor-stability", "update-atomic"},
    ),
    "double write": (("rxax1ax2", "rx12"), set(), set()),
    "wr and process": (("1 rx1ay1", "2 ry1", ">2 ax1"), {"G1c-process"}, {"strong-session-read-committed"}),
    "future read": (("rx1ax1",), {"future-read"}, {"read-committed"}),
    "info reads prove nothing": (("info ax2ry", "ax1ay1", "rx12ry1"), set(), set()),
    "failed reads prove nothing": (("fail rx9", "ax1", "rx1"), set(), set()),
    "garbage": (("ax1", "rx15"), {"garbage-read"}, {"read-uncommitted"}),
    "one append, never read": (("rx", "ax1"), set(), set()),
    "paper": (
        ("ax1ax3ax4ay2ay3ay4ay5az1az2", "ay8rx134", "az4ry[2 3 4 5 8]rz124rx134", "au7rx134ry[2 3 4 5]az3"),
        {"G-single-item"},
        {"consistent-view", "repeatable-read"},
    ),
}
# From test/elle/rw_register_test.clj, with the option --keys.
REGISTERS: dict[str, tuple[tuple[str, ...], str, set[str], set[str]]] = {
    "G1a": (("fail wx2", "rx2"), "", {"G1a"}, {"read-committed"}),
    "G1b": (("wx2wx1", "rx2"), "", {"G1b"}, {"read-committed"}),
    "G1c": (("wx1ry1", "wy1rx1"), "", {"G1c"}, {"read-committed"}),
    "internal": (("wx1", ">wx2", ">rx1rx2"), "", {"internal"}, {"read-atomic"}),
    "future read": (("rx1wx1",), "", {"future-read"}, {"read-committed"}),
    "good": (("wy2", ">ry2wx2rx2wx1rx1"), "", set(), set()),
    "initial state": (("rx_ry1", "wy1wx2"), "", {"G-single-item"}, {"consistent-view", "repeatable-read"}),
    "wfr": (("wy1", "ry1wx1wy2", "rx1ry1"), "wfr", {"G-single-item"}, {"consistent-view", "repeatable-read"}),
    "without wfr": (("wy1", "ry1wx1wy2", "rx1ry1"), "", set(), set()),
    "G0 by sequential keys": (("0 wx1wy2", "1 wx2wy1", ">0 rx2", "1 ry2"), "sequential", {"G0"}, {"read-uncommitted"}),
    "stale read": (("wx1", ">wx2", ">rx1"), "linearizable", {"cyclic-versions"}, {"read-uncommitted"}),
    "lost update": (
        ("wx1", ">rx1wx2", "rx1wx3"),
        "wfr",
        {"lost-update", "G2-item"},
        {"cursor-stability", "update-atomic"},
    ),
}


def outcome(tmp_path: Path, lines: list[str], **settings: object) -> tuple[set[str], dict[str, Any]]:
    results = judged(tmp_path, lines, **settings)
    return set(results.findings()["rule"].to_list()), verdict_of(results)


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_elle(tmp_path: Path, name: str) -> None:
    txns, anomalies, weakest = LISTS[name]
    found, verdict = outcome(tmp_path, history_of(*txns))
    assert found == anomalies
    assert set(verdict["consistency"]["not"]) == weakest
    assert verdict["verdict"] == ("invalid" if anomalies else "valid")


@pytest.mark.parametrize("name", REGISTERS)
def test_registers_of_elle(tmp_path: Path, name: str) -> None:
    txns, keys, anomalies, weakest = REGISTERS[name]
    found, verdict = outcome(
        tmp_path, history_of(*txns, is_register=True), reader="elle-register", keys=(keys,) if keys else ()
    )
    assert found == anomalies
    assert set(verdict["consistency"]["not"]) == weakest
    assert not anomalies or verdict["verdict"] == "invalid"


def test_every_anomaly_rules_out_a_model_and_every_model_forbids_one() -> None:
    for name in ANOMALIES:
        weakest, strongest = boundary([name])
        assert weakest, name
        assert not set(weakest) & set(strongest), name
    for name in DEMANDED:
        assert forbidden_by(name) <= ANOMALIES.keys()
        assert "G0" in forbidden_by(name)
    assert set(MODELS["strict-serializable"].implied) <= MODELS.keys()


def test_a_model_decides_what_is_permitted(tmp_path: Path) -> None:
    file, out = tmp_path / "skew.edn", tmp_path / "out"
    file.write_text("\n".join(history_of("ax1ry", "ay1rx", "rx1ry1")) + "\n")
    command = ["check", str(file), "--engine", "local", "--out", str(out), "--plots", "none"]
    strict = invoke(*command, "--json")
    assert strict.return_value == 1
    assert json.loads(strict.stdout)["consistency"]["strongest_not_ruled_out"] == ["strong-snapshot-isolation"]
    weak = invoke(*command, "--model", "snapshot-isolation")
    assert weak.return_value == 0
    assert "Not repeatable-read" in weak.stdout
    assert "strong-snapshot-isolation is not ruled out" in " ".join(weak.stdout.split())
    report = (out / "report.html").read_text()
    assert "T1 read the initial state of key :y, before T2 appended 1" in report
    assert "Impact" not in report
    unknown = invoke(*command, "--model", "monotonic")
    assert "expected one of read-uncommitted" in str(unknown.exception)


def test_python_demands_a_model(tmp_path: Path) -> None:
    file = tmp_path / "skew.edn"
    file.write_text("\n".join(history_of("ax1ry", "ay1rx", "rx1ry1")) + "\n")
    assert logjudge.check(file).verdict == "invalid"
    weak = logjudge.check(file, model="snapshot-isolation")
    assert (weak.verdict, weak.report["consistency"]["demanded"]) == ("valid", "snapshot-isolation")
    with pytest.raises(logjudge.LogjudgeError, match="consistency model 'monotonic', expected one of read-uncommitted"):
        logjudge.check(file, model="monotonic")


def test_python_takes_assumptions_of_registers(tmp_path: Path) -> None:
    txns, keys, anomalies, _ = REGISTERS["lost update"]
    file = tmp_path / "registers.edn"
    file.write_text("\n".join(history_of(*txns, is_register=True)) + "\n")
    result = logjudge.check(file, keys=keys, reader="elle-register")
    assert set(result.findings["rule"]) == anomalies
    with pytest.raises(logjudge.LogjudgeError, match="keys 'monotonic', expected some of wfr"):
        logjudge.check(file, keys="monotonic")


def test_spark_is_not_started_for_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from logjudge.cli.engines import Spark

    monkeypatch.setattr(Spark, "open", lambda *_: pytest.fail("Spark was started"))
    file = tmp_path / "valid.edn"
    file.write_text("\n".join(history_of("ax1", ">rx1")) + "\n")
    done = invoke("check", file, "--json", "--out", tmp_path / "out")
    assert done.return_value == 0
    assert json.loads(done.stdout)["input"]["engine"] == "local"


def test_a_repeated_value_leaves_its_key_unknown(tmp_path: Path) -> None:
    """T1 and T2 both append 1 to x: its reads identify no writer. The other key is judged."""
    found, verdict = outcome(tmp_path, history_of("ax1", "ax1", "rx1"))
    assert (found, verdict["verdict"]) == (set(), "unknown")
    [repeated] = [item["says"] for item in verdict["assumptions"] if item["name"] == "values unique"]
    assert repeated.startswith("1 key not judged (:x), as a value was written twice")
    found, verdict = outcome(tmp_path, history_of("ax1", "ax1", "rx1", "fail ay1", "ry1"))
    assert (found, verdict["verdict"]) == ({"G1a"}, "invalid")
    _, verdict = outcome(tmp_path, history_of("wx1", "wx1", "rx1", is_register=True))
    assert verdict["verdict"] == "unknown"


def test_registers_of_unknown_order_or_origin_are_unknown(tmp_path: Path) -> None:
    _, verdict = outcome(tmp_path, history_of("rx7", is_register=True))  # an initial value, or garbage
    assert verdict["verdict"] == "unknown"
    # Write skew by blind writes: no order explains it, but the reads do not show it.
    _, verdict = outcome(tmp_path, history_of("wx1wy2", "wx2wy1", ">rx1ry1", is_register=True))
    assert verdict["verdict"] == "unknown"
    assert any(item["name"] == "order of versions known" and not item["holds"] for item in verdict["assumptions"])


def test_a_left_out_line_is_no_breach(tmp_path: Path) -> None:
    """The line that appended 1 cannot be read, so 1 is not garbage."""
    lines = history_of("ax1", ">rx1")
    lines[0] = lines[0].replace("]]", "")
    lines[1] = lines[1].replace("]]", "")
    found, verdict = outcome(tmp_path, lines)
    assert (found, verdict["verdict"], verdict["counts"]["quarantined"]) == (set(), "unknown", 2)


def test_an_append_before_the_first_line_is_no_garbage(tmp_path: Path) -> None:
    """A completion without an invocation shows that earlier lines are missing."""
    lines = history_of("ax2", ">rx12")
    assert outcome(tmp_path, lines)[0] == {"garbage-read"}
    found, verdict = outcome(tmp_path, lines[1:])
    assert (found, verdict["verdict"]) == (set(), "unknown")


def test_without_a_commit_nothing_was_tested(tmp_path: Path) -> None:
    _, verdict = outcome(tmp_path, history_of("fail ax1", "info ax2"))
    assert verdict["verdict"] == "unknown"


def test_an_operation_begun_before_another_of_its_process_ended_has_no_known_invocation(tmp_path: Path) -> None:
    """The ok of process 0 is of its first invocation, which overlaps the append, or of its second, which does not."""
    events = [
        (":invoke", "[[:r :x nil]]", 0),
        (":invoke", "[[:append :x 1]]", 1),
        (":ok", "[[:append :x 1]]", 1),
        (":invoke", "[[:r :x nil]]", 0),
        (":ok", "[[:r :x []]]", 0),
        (":invoke", "[[:r :x nil]]", 2),
        (":ok", "[[:r :x [1]]]", 2),
    ]
    lines = [f"{{:type {kind}, :f :txn, :value {value}, :process {process}}}" for kind, value, process in events]
    found, verdict = outcome(tmp_path, lines)
    assert (found, verdict["verdict"]) == (set(), "unknown")
    crashed = lines[2].replace(":ok", ":info").replace(":process 1", ":process 0").replace("append :x 1", "r :x nil")
    found, verdict = outcome(tmp_path, [*lines[:3], crashed, *lines[3:]])  # so the second invocation is the one
    assert (found, verdict["verdict"]) == ({"G-single-item-realtime"}, "invalid")


def test_an_unread_append_may_hide_a_conflict_from_snapshot_isolation(tmp_path: Path) -> None:
    """Both wrote z concurrently, which snapshot isolation forbids, but no transaction read z."""
    lines = history_of("ax1ryaz1", "ay1rxaz2", "rx1ry1")
    _, verdict = outcome(tmp_path, lines, model="snapshot-isolation")
    assert verdict["verdict"] == "unknown"


FORMS = """{:type :ok, :process 1, :f :txn, :value [[:append "a b" [1 2]] [:r "a b" [[1 2]]]]}
{:index 3, :time 4, :type :invoke,
 :process 2, :f :txn,
 :value [[:r "a b"]]}
; a comment
#jepsen.history.Op{:type :ok, :process 2, :f :txn, :value [[:r "a b" [[1 2]]]], :index 4}
{:type :info, :process :nemesis, :f :start, :value nil}
{:type :invoke, :process 3, :f :txn, :value [[:append "a b" 1N]]}
{:type :info, :process 3, :f :txn, :value nil, :error [:timeout]}
"""


def test_any_edn_of_an_event_is_read() -> None:
    events, steps, quarantine = READERS["elle-append"].parse(FORMS.encode())
    assert quarantine.is_empty()
    assert events["line"].to_list() == [0, 1, 5, 7, 8]
    assert events["has_value"].to_list() == [True, True, True, True, False]
    assert steps.select("f", "key", "value").rows() == [
        ("w", '"a b"', "[1 2]"),
        ("r", '"a b"', "[1 2]\n"),
        ("r", '"a b"', None),
        ("r", '"a b"', "[1 2]\n"),
        ("w", '"a b"', "1"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{:type :ok, :process 1, :value [[:append 1]]}", "found the micro-operation [:append 1], expected [:r key"),
        ("{:type :ok, :process 1, :value [[:w 1 2]]}", "found the micro-operation [:w 1 2]"),
        ("{:type :ok, :process 1, :value [[:r 1 2]]}", "found a read of 2, expected a vector"),
        ("{:type :ok, :process 1, :value 3}", "found :value 3, expected a vector"),
        ("{:type :done, :process 1, :value []}", "found :type :done"),
        ("{} {}", "found 2 forms, expected the map of one event"),
        ("[" * 200, "101 levels deep"),
        ('{:type "', "string without end"),
        ("{:a 1 :a 2}", "a map with a key twice"),
    ],
)
def test_malformed_lines_are_left_out(line: str, reason: str) -> None:
    good = "{:type :ok, :process 1, :f :txn, :value [[:append 1 1]]}"
    events, _, quarantine = READERS["elle-append"].parse(f"{line}\n{good}\n".encode())
    assert reason in quarantine["reason"][0]
    assert events.height == 1


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet='{}[]()#_"\\:;, \n01arw.nil-', max_size=60), st.sampled_from(["elle-append", "elle-register"]))
def test_hostile_text_never_raises(text: str, name: str) -> None:
    events, steps, quarantine = READERS[name].parse(
        f"{{:type :ok, :value [[:r :a {text}]], :process 1}}\n{text}".encode()
    )
    assert steps["line"].is_in(events["line"].implode()).all()
    assert quarantine["line"].is_sorted()


def test_formats_are_recognised() -> None:
    assert recognise(history_of("ax1")[0].encode(), "log") == "elle-append"
    assert recognise(history_of("rx1", is_register=True)[0].encode(), "log") == "elle-register"
    assert recognise(history_of("ax1")[0].encode(), "operations") == "edn"  # `logjudge linearize` decides by itself
