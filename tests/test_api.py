"""`import logjudge`: the public names, and the examples of docs/python.md."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import logjudge
import polars as pl
import pytest
from command_line import invoke, verdict_in
from event_lines import CONFIG, frame, lines

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "unclean-election"
IN_SPARK = "## In your own Spark session"


@pytest.mark.parametrize("in_spark", [False, pytest.param(True, marks=pytest.mark.spark)], ids=["local", "spark"])
def test_the_examples_of_the_page(
    in_spark: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the section that needs Spark run in the session that the tests share."""
    page = (ROOT / "docs" / "python.md").read_text()
    before, _, rest = page.partition(IN_SPARK)
    section, mark, after = rest.partition("\n## ")
    text, names = (section, {"spark": request.getfixturevalue("spark")}) if in_spark else (before + mark + after, {})
    folder = request.getfixturevalue("tmp_path")
    (folder / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(folder)
    example = doctest.DocTestParser().get_doctest(text, {"logjudge": logjudge, **names}, "python.md", None, None)
    done = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(example)
    assert done.attempted > (3 if in_spark else 20)
    assert done.failed == 0


def test_every_public_name_is_documented() -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    undocumented = [name for name in logjudge.__all__ if name not in page]
    assert undocumented == []
    assert set(logjudge.__all__) <= set(dir(logjudge))
    for name in logjudge.__all__:
        assert getattr(logjudge, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = logjudge.nothing  # type: ignore[attr-defined]


def test_importing_is_quick() -> None:
    program = "import time; begun = time.process_time(); import logjudge; print(time.process_time() - begun)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.1


def test_a_result_is_what_the_command_writes(tmp_path: Path) -> None:
    result = logjudge.check(EXAMPLE)
    saved = result.save(tmp_path / "api", plots=False)
    command = invoke("check", EXAMPLE, "--engine=local", "--no-plots", f"--out={tmp_path / 'cli'}")
    assert "INVALID" in command.output
    ours, theirs = (verdict_in(folder) for folder in (saved, tmp_path / "cli"))
    assert ours.pop("provenance")["command"] == "logjudge.check"
    theirs.pop("provenance")
    assert ours == theirs
    assert pl.read_parquet(saved / "findings.parquet").equals(result.findings)
    assert (saved / "report.html").stat().st_size > 1000


def test_frames_of_polars_and_pandas() -> None:
    events = frame(lost=True)
    for each in (events, events.lazy(), events.to_pandas()):
        result = logjudge.check(each, config=CONFIG, name="frame")
        assert result.rules["lost-write"]["count"] == 1
        assert (
            result.findings["sentence"].to_list()
            == logjudge.check(events, config=CONFIG).findings["sentence"].to_list()
        )
        assert result.findings["evidence"][0][0]["line"] == 1
    valid = logjudge.check(frame(), config=CONFIG)
    assert valid.verdict == "valid"
    valid.assert_valid()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_frame_of_spark() -> None:
    from logjudge.analysis.engines.spark.session import open_session

    events = open_session().createDataFrame(frame(lost=True).to_arrow())
    assert logjudge.check(events, config=CONFIG).rules["lost-write"]["count"] == 1


def test_no_session_opens_for_a_run_that_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import logjudge.analysis.engines.spark

    def refused() -> None:
        raise AssertionError("a session opens")

    monkeypatch.setattr(logjudge.analysis.engines.spark, "open_session", refused)
    (tmp_path / "lists.edn").write_text(
        """{:type :invoke, :f :txn, :value [[:append x 1]], :process 0}
        {:type :ok, :f :txn, :value [[:append x 1]], :process 0}"""
    )
    assert logjudge.check(tmp_path / "lists.edn", engine="spark").verdict == "valid"
    (tmp_path / "history.jsonl").write_text("\n".join(map(json.dumps, lines(lost=False))) + "\n")
    with pytest.raises(AssertionError, match="a session opens"):
        logjudge.check(tmp_path / "history.jsonl", engine="spark", config=CONFIG)


def test_several_paths_are_several_results(tmp_path: Path) -> None:
    for name, lost in (("whole", False), ("lossy", True)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "history.jsonl").write_text("\n".join(map(json.dumps, lines(lost))) + "\n")
        (tmp_path / name / "run.json").write_text(json.dumps(CONFIG))
    results = logjudge.check([tmp_path / "whole", str(tmp_path / "lossy")])
    assert [(result.name, result.verdict) for result in results] == [("whole", "valid"), ("lossy", "invalid")]


def test_all_runs_of_a_list_are_asserted(tmp_path: Path) -> None:
    for name, lost in (("whole", False), ("lossy", True), ("leaky", True)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines(lost))) + "\n")
    paths = [tmp_path / f"{name}.jsonl" for name in ("whole", "lossy", "leaky")]
    with pytest.raises(AssertionError) as failure:
        logjudge.assert_valid(paths, config=CONFIG)
    named = [line.split(":")[0] for line in str(failure.value).splitlines() if not line.startswith(" ")]
    assert named == ["lossy", "leaky"]
    allowed = logjudge.assert_valid(paths, allow="lost-write", config=CONFIG)
    assert [result.name for result in allowed] == ["whole", "lossy", "leaky"]
    with pytest.raises(logjudge.UsageError, match="found an empty list of runs"):
        logjudge.assert_valid([])


def test_a_breach_is_explained_and_can_be_allowed() -> None:
    result = logjudge.check(frame(lost=True), config=CONFIG, name="lossy")
    with pytest.raises(AssertionError) as failure:
        result.assert_valid()
    message = str(failure.value)
    assert message.startswith("lossy: invalid. 1 acknowledged write of 2 was lost.")
    assert "lost-write: " in message
    assert "history.jsonl:2" in message
    result.assert_valid(allow="lost-write")
    logjudge.assert_valid(frame(lost=True), allow=["lost-write"], config=CONFIG)
    with pytest.raises(AssertionError, match="lossy: invalid"):
        logjudge.assert_valid(result)


def test_an_unknown_verdict_names_its_broken_assumptions() -> None:
    with pytest.raises(AssertionError, match=r"events: unknown\.(.|\n)*broken assumption final reads complete: "):
        logjudge.check(frame()).assert_valid()


def test_a_notebook_shows_the_head_of_the_report() -> None:
    shown = logjudge.check(frame(lost=True), config=CONFIG, name="<b>lossy")._repr_html_()
    assert shown.startswith("<iframe")
    assert "1 acknowledged write of 2 was lost" in shown
    assert "<b>lossy" not in shown
    assert repr(logjudge.check(frame(), config=CONFIG, name="w")) == "<logjudge.Result w: valid, 0 findings>"


def test_only_and_skip_choose_rules() -> None:
    only = logjudge.check(frame(), config=CONFIG, only="lost-write")
    assert list(only.rules) == ["lost-write"]
    assert "lost-write" not in logjudge.check(frame(), config=CONFIG, skip=["lost-write"]).rules


def test_a_recorder_is_finished_and_judged(tmp_path: Path) -> None:
    recorder = logjudge.Recorder(tmp_path / "run")
    with recorder.send("p0", "orders", "order-1") as op:
        op.ok(partition=0, offset=0)
    assert logjudge.check(recorder).verdict == "unknown"


def test_histories_share_a_config(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.jsonl" for number in range(2)]
    for lost, path in enumerate(paths):
        frame(lost=bool(lost)).write_ndjson(path)
    assert [result.verdict for result in logjudge.check(paths, config=CONFIG)] == ["valid", "invalid"]
    assert logjudge.check(paths[0]).verdict == "unknown"
    with pytest.raises(logjudge.LogjudgeError, match="config"):
        logjudge.check(paths, config={"final": "yes"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"run": "/nowhere/run"}, "/nowhere/run"),
        ({"run": 3}, "found int as a run, expected a path, a list of paths, a Recorder, or a DataFrame of events"),
        ({"run": EXAMPLE, "engine": "dask"}, "found engine='dask', expected one of local, spark"),
        ({"run": EXAMPLE, "alow": "lost-write"}, "there is no argument alow; did you mean allow"),
        ({"run": EXAMPLE, "allow": "lost"}, "there is no rule lost; did you mean lost-write or lost-update"),
        ({"run": EXAMPLE, "config": {}}, "found config with .*, which has a run.json, expected one of them"),
        ({"run": EXAMPLE, "reader": "csv"}, "found reader='csv', expected one of native, jepsen"),
        ({"run": "s3a://bucket/run"}, "expected a local path"),
        ({"run": pl.DataFrame({"time": [1]})}, "found a DataFrame without process, op, type, f"),
    ],
)
def test_misuse_is_one_sentence(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(logjudge.LogjudgeError, match=message):
        logjudge.check(**arguments)  # type: ignore[call-overload]


def test_simulations_are_bundles(tmp_path: Path) -> None:
    folder = logjudge.simulate(tmp_path / "run", "kip-320", seed=3, brokers=3, ops=100, settings={"acks": "all"})
    assert logjudge.check(folder).verdict == "valid"
    for arguments, message in (
        ({"variant": "zab"}, "there is no variant 'zab'"),
        ({"settings": {"x": 1}}, "there is no setting 'x'"),
        ({"faults": "meteor"}, "there is no fault 'meteor'"),
    ):
        with pytest.raises(logjudge.UsageError, match=message):
            logjudge.simulate(tmp_path / "other", **arguments)  # type: ignore[arg-type]


def test_linearizability_of_operations() -> None:
    write = logjudge.Operation(logjudge.Action("write", 1), 0, 10)
    late = logjudge.Operation(logjudge.Action("read", None, 1), 5, 12)
    assert logjudge.linearizable("register", [write, late])
    illegal = logjudge.linearizable("register", [write, late._replace(action=logjudge.Action("read", None, 2))])
    assert not illegal
    assert "cannot be linearized: " in repr(illegal)
    with pytest.raises(logjudge.UsageError):
        logjudge.linearizable("no-such-model", [write])


@pytest.mark.parametrize("ww_deps", [False, True])
def test_ww_deps_is_that_of_the_command(ww_deps: bool, tmp_path: Path) -> None:
    """Two transactions that wrote in another order to each of two keys: a cycle by neighbouring offsets alone."""
    steps = {0: "[:send :x [0 1]] [:send :y [1 2]]", 1: "[:send :x [1 3]] [:send :y [0 4]]"}
    history = tmp_path / "history.edn"
    history.write_text(
        "".join(
            f"{{:index {index}, :time {index}, :type {kind}, :process {process}, :f :txn, :value [{steps[process]}]}}\n"
            for index, (kind, process) in enumerate(((":invoke", 0), (":invoke", 1), (":ok", 0), (":ok", 1)))
        )
    )
    found = logjudge.check(history, reader="jepsen", ww_deps=ww_deps).findings
    assert ("G0" in found["rule"].to_list()) == ww_deps


def test_a_run_that_cannot_be_read_fails_a_test_without_the_frames_of_the_judge(tmp_path: Path) -> None:
    with pytest.raises(logjudge.InputError) as caught:
        logjudge.assert_valid(tmp_path)
    assert [entry.name for entry in caught.traceback][1:] == ["assert_valid"]
