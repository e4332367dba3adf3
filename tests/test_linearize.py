"""`logjudge linearize` from the command line."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import click
import pytest
from logjudge.analysis.engines import spark
from logjudge.analysis.engines.spark import linearize as spark_linearize
from logjudge.cli.linearize import _compile, _judge
from logjudge.cli.progress import silenced
from logjudge.histories.errors import LogjudgeError, MissingComponentError, UsageError
from logjudge.histories.operation_history import read_operations
from operation_files import DATA, OK_LINES, run, write


def test_json_is_the_verdicts_and_seconds() -> None:
    verdicts = json.loads((DATA / "verdicts.json").read_text())
    paths = [str(DATA / name) for name in verdicts if name.endswith(".log")]
    result = run(*paths, "--model", "register", "--json")
    assert result.return_value == 1
    report = json.loads(result.stdout)
    assert list(report) == ["files"]
    assert {Path(name).name: each["verdict"] for name, each in report["files"].items()} == {
        name: verdict for name, verdict in verdicts.items() if name.endswith(".log")
    }
    assert list(report["files"]) == paths
    assert all(0 < each["seconds"] < 60 for each in report["files"].values())


@pytest.mark.parametrize(
    ("name", "code"), [("etcd_002.log", 0), ("etcd_000.log", 1), ("c01-ok.txt", 0), ("c01-bad.txt", 1)]
)
def test_the_model_follows_from_the_format(name: str, code: int) -> None:
    assert run(DATA / name).return_value == code


def test_a_breach_is_reported_with_its_line() -> None:
    output = run(DATA / "etcd_057.log", "--minimal").stdout
    assert "e-" not in output.splitlines()[0]  # a short time is shown in ms
    assert "cannot be linearized: line 153: process 12 read → 4" in output
    assert "possible states before it: " in output
    assert "minimal failure (a smaller history that is not linearizable either): 6 operations:" in output


def test_exit_codes_of_several_files(tmp_path: Path) -> None:
    good = write(tmp_path / "good.jsonl", *OK_LINES)
    broken = write(tmp_path / "broken.jsonl", *OK_LINES, "{")
    assert run(good).return_value == 0
    result = run(broken, good, "--json")
    assert result.return_value == 2
    files = json.loads(result.stdout)["files"]
    assert (files[str(good)]["verdict"], files[str(broken)]["verdict"]) == ("ok", "broken")
    assert files[str(broken)]["error"] in result.stderr
    assert f"{broken}:5: found" in result.stderr
    assert run(good, broken, DATA / "etcd_000.log").return_value == 1


def test_unknown_has_its_own_exit_code(tmp_path: Path) -> None:
    lines = [f'{{"process": {i}, "f": "add", "value": {2 << i}, "call": 0, "end": 9}}' for i in range(40)]
    lines.append('{"process": 99, "f": "read", "result": 1, "call": 0, "end": 9}')
    path = write(tmp_path / "hard.jsonl", *lines)
    result = run(path, "--model", "counter", "--timeout", "0.2")
    assert result.return_value == 3
    assert "the time ran out: linearized at most 40 of 41 completed operations" in result.output
    assert run(path, "--model", "counter", "--memory", "1").return_value == 3


def test_progress_is_reported_for_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logjudge.cli.linearize.LARGE", 10)
    result = run(write(tmp_path / "h.jsonl", *OK_LINES), "--model", "register", "--json")
    assert "searching 2 operations" in result.stderr
    assert list(json.loads(result.stdout)) == ["files"]


def test_a_picture_is_written(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    written = run(DATA / "etcd_000.log", "--picture", page)
    assert (written.return_value, written.stderr) == (1, f"wrote {page}\n")
    assert "cannot be linearized" in page.read_text()
    result = run(DATA / "etcd_000.log", "--picture", tmp_path / "no" / "out.html")
    assert isinstance(result.exception, LogjudgeError)


def test_a_model_of_the_user(tmp_path: Path) -> None:
    model = write(
        tmp_path / "my_model.py",
        "class Bank:",
        "    initial = 0",
        "    def step(self, state, operation):",
        "        if operation.f == 'deposit':",
        "            return state + operation.value",
        "        return state if operation.result in (state, operation.result.__class__) else None",
        "broken = 3",
    )
    good = write(
        tmp_path / "bank.jsonl",
        '{"process": 0, "f": "deposit", "value": 5, "call": 0, "end": 1}',
        '{"process": 0, "f": "balance", "result": 5, "call": 2, "end": 3}',
    )
    bad = write(tmp_path / "bad.jsonl", '{"process": 0, "f": "balance", "result": 5, "call": 2, "end": 3}')
    assert run(good, "--model", f"{model}:Bank").return_value == 0
    assert run(bad, "--model", f"{model}:Bank").return_value == 1
    for name in (f"{model}:broken", f"{model}:missing", f"{tmp_path}/none.py:Bank", "nonsense"):
        assert isinstance(run(good, "--model", name).exception, LogjudgeError), name


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def step(self, state, operation): raise KeyError(5)", "raised KeyError: 5"),
        ("def step(self, state, operation): return [1]", "unhashable type: 'list'"),
        ("step = print; partition = lambda self, operation: 1 / 0", "raised ZeroDivisionError"),
        ("step = print; partition = lambda self, operation: []", "a key that cannot be hashed"),
        ("step = print; observes = 5", "expected a function"),
    ],
)
def test_an_error_in_a_model_is_one_sentence(tmp_path: Path, body: str, words: str) -> None:
    model = write(tmp_path / "wrong.py", "class Wrong:", "    initial = 0", f"    {body}")
    result = run(write(tmp_path / "a.jsonl", *OK_LINES), "--model", f"{model}:Wrong")
    message = str(result.exception) if isinstance(result.exception, LogjudgeError) else result.stderr
    assert words in message
    assert message.count("\n") <= 1


def test_the_user_chooses_among_several_models_that_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "read.jsonl", '{"process": 0, "f": "read", "result": null, "call": 2, "end": 3}')
    result = run(path)
    assert result.return_value == 2
    assert "choose one with --model, of register" in result.stderr


@pytest.mark.parametrize(
    ("name", "lines", "line", "words"),
    [
        ("a.log", ["INFO jepsen.util - 0 :invoke :read nil", "INFO jepsen.util - 0 :ok :read x"], 2, "'x'"),
        ("a.log", ["INFO  jepsen.util - 0\t:ok\t:read\tnil"], 1, "its invocation before it"),
        ("a.log", ["INFO  jepsen.util - 0\t:invoke\t:cas\t[1]"], 1, "a pair"),
        ("a.log", ["INFO  jepsen.util - 0\t:invoke\t:pop\t1"], 1, ":pop"),
        ("a.log", ["INFO  jepsen.util - 0"], 1, "PROCESS"),
        ("a.log", ["INFO  jepsen.util - 0\t:invoke\t:read\tnil"] * 2, 2, "line 1 first"),
        ("a.edn", ["{:process 0, :type :invoke, :f :read, :value nil}", "{:process 0"], 2, "end of the text inside {"),
        ("a.edn", ["[{:process 0, :type :invoke, :f :read, :value nil}"], 1, "the end of the text inside ["),
        ("a.edn", ["{:process 0, :type :invoke, :f :read, :value nil}}"], 1, "found }, expected a form"),
        ("a.edn", ["{:process 0, :type :went, :f :read}"], 1, ":went"),
        ("a.edn", ["{:process 0, :type :invoke}"], 1, "without :f"),
        ("a.edn", ["{:type :invoke, :f :read}"], 1, "without :process"),
        ("a.edn", ["{:process 0 :process 1}"], 1, "a key twice"),
        ("a.edn", ["{:process}"], 1, "a key without value"),
        ("a.edn", ["[" * 5000], 1, "levels deep"),
        ("a.edn", ['{:process 0, :type :invoke, :f :write, :value "abc}'], 1, "a string without end"),
        ("a.jsonl", [*OK_LINES, "[1]"], 5, "one JSON object a line"),
        ("a.jsonl", [*OK_LINES, '{"a": ' + "[" * 100_000], 5, "JSON object"),
        ("a.jsonl", ['{"process": 1, "type": "invoke", "f": "write", "value": NaN}'], 1, "NaN"),
        ("a.jsonl", ['{"process": 1, "process": 2}'], 1, "same key twice"),
        ("a.jsonl", ['{"process": 1, "type": "invoke"}'], 1, "without f"),
        ("a.jsonl", ['{"process": 1, "type": "gone", "f": "read"}'], 1, "'gone'"),
        ("a.jsonl", ['{"type": "invoke", "f": "read"}'], 1, "without process"),
        ("a.jsonl", [OK_LINES[0][:-1] + ', "time": 5}', OK_LINES[1]], 2, "without a time"),
        ("a.jsonl", ['{"f": "read", "call": "now"}'], 1, "a number"),
        ("a.jsonl", ['{"f": "read", "result": 1, "call": 5, "end": 3}'], 1, "ends at 3, called at 5"),
        ("a.jsonl", [*OK_LINES, '{"process": 1, "type": "invoke", "f": "write", "value": 3}',
                     '{"process": 1, "type": "ok", "f": "read", "value": 3}'], 6, "invoked at line 5"),
        ("a.txt", ["hello"], 1, "--from"),
        ("a.txt", [""], 1, "an empty file"),
    ],
)  # fmt: skip
def test_a_broken_line_is_one_sentence(tmp_path: Path, name: str, lines: list[str], line: int, words: str) -> None:
    path = write(tmp_path / name, *lines)
    result = run(path, "--model", "register")
    assert result.return_value == 2
    assert result.stderr.startswith(f"logjudge: {path}:{line}: found ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_operation_that_the_model_does_not_have_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *OK_LINES)
    result = run(path, "--model", "queue")
    assert result.return_value == 2
    assert f"{path}:1: found the operation " in result.stderr
    assert result.stderr.endswith("'write' (not enqueue or dequeue), expected operations of the model queue\n")


def test_transactions_are_left_to_check(tmp_path: Path) -> None:
    path = write(tmp_path / "a.edn", "{:process 0, :type :invoke, :f :txn, :value [[:append 1 1]]}")
    assert f"found transactions, which no model has; `logjudge check {path}` judges them" in run(path).stderr


def test_compressed_files_are_read(tmp_path: Path) -> None:
    whole = gzip.compress((DATA / "etcd_000.log").read_bytes())
    (tmp_path / "etcd_000.log.gz").write_bytes(whole)
    assert run(tmp_path / "etcd_000.log.gz").return_value == run(DATA / "etcd_000.log").return_value
    (tmp_path / "cut.log.gz").write_bytes(whole[:-9])
    result = run(tmp_path / "cut.log.gz")
    assert result.return_value == 2
    assert "found the gzip data ends before its end mark" in result.stderr


def test_files_that_are_no_histories(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b'{"f": "read"}\n\xe9\n')
    for path in (tmp_path / "missing", tmp_path, tmp_path / "latin"):
        result = run(path)
        assert result.return_value == 2
        assert str(path) in result.stderr
    assert ":2: found the byte 0xe9" in result.stderr
    with pytest.raises(UsageError, match=r"found the format 'klingon', expected one of "):
        read_operations(str(DATA / "etcd_000.log"), "klingon")


def test_histories_of_logs_are_sent_to_check(tmp_path: Path) -> None:
    log, operations = tmp_path / "history.jsonl", tmp_path / "operations.jsonl"
    log.write_text('{"process": "p", "type": "invoke", "op": 0, "f": "send", "value": "a", "time": 0}\n')
    operations.write_text('{"process": 1, "type": "invoke", "f": "send", "value": "a"}\n')
    assert ":1: found a history of a log (native), expected" in run(log).stderr
    assert "logjudge check judges" in run(log).stderr
    assert "found a folder" in run(tmp_path).stderr
    assert "history of a log" not in run(operations).stderr


def test_a_format_that_does_not_exist_is_a_sentence_with_those_that_do() -> None:
    refused = run(DATA / "etcd_000.log", "--from", "klingon").exception
    assert isinstance(refused, click.BadParameter)
    assert refused.format_message() == (
        "Invalid value for '--from': 'klingon' is not one of 'register-log', 'jsonl', 'edn'."
    )


def test_spark_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    result = run(DATA / "c01-ok.txt", "--engine", "spark")
    assert isinstance(result.exception, MissingComponentError)
    assert "--engine local needs neither Spark nor Java" in str(result.exception)


def test_a_cluster_judges_each_file_in_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """test_linearize_spark.py has what Spark judges; here the local engine does, and the session is a dummy."""
    opened: list[object] = []
    monkeypatch.setattr(spark, "open_session", lambda *arguments, **_options: opened.append(arguments))
    monkeypatch.setattr(spark_linearize, "judge_file", lambda _session, *arguments: _judge(*arguments))
    result = run(DATA / "c01-bad.txt", DATA / "c01-ok.txt", "--spark", "--master", "local[1]", "--conf", "a=b=c")
    assert opened == [("local[1]", None, (("a", "b=c"),))]
    assert result.return_value == 1
    assert "key '7', 5 operations" in result.output
    assert "expected a local path; --engine spark reads URIs" in str(run("s3a://bucket/h.jsonl").exception)


def test_numba_is_loaded_only_for_the_compiled_search() -> None:
    code = "import sys, logjudge.models.porcupine, logjudge.cli.linearize; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_slow_compilation_is_announced_unless_quiet(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("logjudge.cli.linearize.LOADING", 0.0)
    monkeypatch.setattr("logjudge.models.porcupine.warm_up", lambda: time.sleep(0.2))
    for quiet in (True, False):
        _compile.cache_clear()
        with silenced() if quiet else nullcontext():
            _compile()
        printed = capfd.readouterr().err
        assert printed == "" if quiet else printed.startswith("loading the search; the first time it is compiled")
