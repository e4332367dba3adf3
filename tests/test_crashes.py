"""A bug of ours in one of several inputs: it is reported with the input's name, and the others are judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from logjudge.analysis.engines.local import judge_run
from logjudge.cli.engines import Engine
from logjudge.cli.main import EXIT_CRASH, cli, main
from logjudge.histories.bundle import open_run
from notation import parse
from polars.exceptions import PanicException

OFFSETLESS = """\
{:type :invoke, :f :send, :value [[:send 1 1]], :process 0, :index 0, :time 0}
{:type :ok, :f :send, :value [[:send 1 [0 1]]], :process 0, :index 1, :time 1}
{:type :invoke, :f :send, :value [[:send 1 2]], :process 0, :index 2, :time 2}
{:type :ok, :f :send, :value [[:send 1 [0 2]]], :process 0, :index 3, :time 3}
{:type :invoke, :f :poll, :value [[:poll]], :process 1, :index 4, :time 4}
{:type :ok, :f :poll, :value [[:poll {1 [[0 1] [nil 2]]}]], :process 1, :index 5, :time 5}
"""


def test_a_record_polled_without_offset_beside_an_offset_with_two_values(tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    file.write_text(OFFSETLESS)
    results = judge_run(open_run(file))
    assert "inconsistent-offsets" in set(results.findings()["rule"])


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    histories = {"first": "p:a@0 end=1 final:<a@0", "second": "p:b@0 end=1 final:<b@0", "third": "p:a@0 p:b@0"}
    return [str(parse(text).write(tmp_path / name)) for name, text in histories.items()]


@pytest.mark.parametrize("error", [IndexError, PanicException])  # polars' panics are not Exceptions
def test_the_other_runs_are_judged(
    error: type[BaseException], runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Engine.judge

    def crash(engine: Engine, run: Any, progress: Any) -> Any:
        if run.settings.name == "first":
            raise error("out of bounds")
        return judge(engine, run, progress)

    monkeypatch.setattr(Engine, "judge", crash)
    out = tmp_path / "out"
    done = invoke("check", *runs, "--engine", "local", "--no-plots", "--json", "--out", str(out))
    assert done.return_value == EXIT_CRASH
    second, third, failed = json.loads(done.stdout)
    assert (second["verdict"], third["verdict"]) == ("valid", "invalid")
    assert failed == {"input": {"name": "first"}, "error": f"a bug of logjudge: {error.__name__}: out of bounds"}
    assert f"this is a bug of logjudge in {runs[0]}" in done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["index.html", "second", "third"]


@pytest.mark.parametrize(("error", "code"), [(PanicException, EXIT_CRASH), (SystemExit, 9)])
def test_a_panic_is_a_crash_and_not_a_breach(
    error: type[BaseException], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_error(*_: Any, **__: Any) -> None:
        raise error(9)

    monkeypatch.setattr(cli, "main", raise_error)
    monkeypatch.setattr("logjudge.cli.main.prepare_process", lambda: None)
    ended: list[int] = []
    monkeypatch.setattr("logjudge.cli.main.end_process", ended.append)
    if code == EXIT_CRASH:
        main()
        assert ended == [code]
    else:
        with pytest.raises(SystemExit):
            main()


def test_a_crash_in_a_single_run_is_raised(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "judge", lambda *_: [][0])
    assert isinstance(invoke("check", runs[0], "--engine", "local").exception, IndexError)


def test_a_full_disk_ends_the_whole_call(runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Engine, "write", full)
    monkeypatch.setattr("logjudge.cli.main._drop_output", lambda: None)
    done = invoke("check", *runs, "--engine", "local", "--no-plots", "--out", str(tmp_path / "out"))
    assert "no space left to write" in str(done.exception)


def test_the_other_histories_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from logjudge.cli import linearize

    lines = [
        {"process": 0, "type": "invoke", "f": "write", "value": 1},
        {"process": 0, "type": "ok", "f": "write", "value": 1},
        {"process": 0, "type": "invoke", "f": "read", "value": None},
        {"process": 0, "type": "ok", "f": "read", "value": 1},
    ]
    names = [str(tmp_path / f"{name}.jsonl") for name in ("first", "second")]
    for name in names:
        Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    judge = linearize.judge_operations

    def crash(model: Any, history: Any, *rest: Any) -> Any:
        if history.source == names[0]:
            raise IndexError("out of bounds")
        return judge(model, history, *rest)

    monkeypatch.setattr(linearize, "judge_operations", crash)
    done = invoke("linearize", *names, "--model", "register", "--json")
    assert done.return_value == EXIT_CRASH
    outcomes = json.loads(done.stdout)["files"]
    assert [outcomes[name]["verdict"] for name in names] == ["crashed", "ok"]
    assert f"in {names[0]}" in done.stderr
