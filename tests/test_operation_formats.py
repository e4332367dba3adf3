"""Formats of histories of operations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from campaign import examples
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError
from logjudge.histories.operation_history import pair_operations, read_operations
from logjudge.histories.readers import LOG, OPERATIONS, READERS, readers_of, recognise
from logjudge.histories.readers.edn import FrozenMap, Word, forms
from logjudge.models.operations import UNKNOWN, Action
from operation_files import DATA, OK_LINES, run, write


def test_formats_mean_the_same(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a",
        "INFO  jepsen.util - 0\t:invoke\t:cas\t[1 2]",
        "INFO  jepsen.util - 1\t:invoke\t:read\tnil",
        "INFO  jepsen.util - 0\t:fail\t:cas\t[1 2]",
        "INFO  jepsen.util - 1\t:ok\t:read\tnil",
        "INFO  jepsen.util - 2\t:invoke\t:write\t4",
        "INFO  jepsen.util - 2\t:info\t:write\t:timed-out",
        "INFO  jepsen.util - 3\t:invoke\t:read\tnil",
        "INFO  jepsen.util - 3\t:fail\t:read\t:timed-out",
    )
    jsonl = write(
        tmp_path / "b",
        '{"process": 0, "f": "cas", "value": [1, 2], "result": false, "call": 0, "end": 2}',
        '{"process": 1, "f": "read", "result": null, "call": 1, "end": 3}',
        '{"process": 2, "f": "write", "value": 4, "call": 4}',
    )
    edn = write(
        tmp_path / "c",
        ";; a comment",
        "[{:process 0, :type :invoke, :f :cas, :value [1 2]}",
        "#jepsen.history.Op{:process 1, :type :invoke, :f :read, :value nil}",
        " {:process 0, :type :ok, :f :cas, :value [1 2], :result false}",
        " {:process 1, :type :ok, :f :read, :value nil} #_{:dropped 1}",
        " {:process 2 :type :invoke :f :write :value 4}",
        " {:process 2 :type :info :f :write :value 4, :error :timeout}",
        " {:process 3 :type :invoke :f :read :value nil}",
        " {:process 3 :type :fail :f :read :value nil}]",
    )
    expected = [
        (Action("cas", (1, 2), False), 0, 2, 0),
        (Action("read", None, None), 1, 3, 1),
        (Action("write", 4, UNKNOWN), 4, None, 2),
    ]
    for path, name in ((log, "register-log"), (jsonl, "jsonl"), (edn, "edn")):
        history = read_operations(str(path))
        assert history.format == name
        assert [tuple(operation) for operation in history.operations] == expected
    assert set(readers_of(OPERATIONS)) == {"register-log", "jsonl", "edn"}


def test_keys_of_independent_registers(tmp_path: Path) -> None:
    path = write(
        tmp_path / "independent.edn",
        "{:process 0, :type :invoke, :f :write, :value [:x 1]}",
        "{:process 0, :type :ok, :f :write, :value [:x 1]}",
        "{:process :nemesis, :type :info, :f :kill, :value n1}",
        "{:process 1, :type :invoke, :f :read, :value [:y nil]}",
        "{:process 1, :type :ok, :f :read, :value [:y nil]}",
    )
    history = read_operations(str(path))
    assert [operation.action.key for operation in history.operations] == [Word(":x"), Word(":y")]
    assert [note.text for note in history.notes] == ["nemesis kill n1"]
    assert run(path).return_value == 0


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["\ufeffINFO  jepsen.util - 0\t:invoke\t:read\tnil\r", "INFO  jepsen.util - 0\t:ok\t:read\tnil\r"], "ok"),
        (["jepsen begins", "  10:00:01,5 INFO jepsen.util -  0  :invoke :write  -3 ",
          "INFO\tjepsen.util\t-\t0\t:ok\t:write\t-3", "", "INFO jepsen.util - 0 :invoke :read nil",
          "INFO jepsen.util - 0 :ok :read -3", "INFO jepsen.util - 0 :invoke :cas [-3, nil]"], "ok"),
        (['{:process 0 :type :invoke :f :get :key "k" :value nil}',
          '{:process 0 :type :ok :f :get :key "k" :value nil}'], "ok"),
        (["{:process 0, :type :invoke, :f :put, :key -1, :value :a}", "{:process 0, :type :ok, :f :put, :key -1}",
          "{:process 0, :type :invoke, :f :get, :key -1}", "{:process 0, :type :ok, :f :get, :key -1, :value :a}"],
         "ok"),
        (["{:process 0, :type :invoke, :f :put, :key 1, :value 5}", "{:process 0, :type :ok, :f :put, :key 1}",
          "{:process 0, :type :invoke, :f :get, :key 1}", "{:process 0, :type :ok, :f :get, :key 1, :value nil}"],
         "illegal"),
        (['{:process 0, :type :invoke, :f :put, :key 1, :value 5}', "{:process 0, :type :ok, :f :put, :key 1}",
          '{:process 0, :type :invoke, :f :append, :key 1, :value "x"}', "{:process 0, :type :ok, :f :append, :key 1}"],
         "illegal"),
        (['\ufeff{"process": 0, "type": "invoke", "f": "write", "value": 1}\r',
          ' {"process": 0, "type": "info", "f": "write"}'], "ok"),
    ],
)  # fmt: skip
def test_odd_but_clear_histories(tmp_path: Path, lines: list[str], verdict: str) -> None:
    path = write(tmp_path / "odd", *lines)
    is_map = "get" in str(lines) or "put" in str(lines)
    model = [] if is_map else ["--model", "register"]
    report = json.loads(run(path, "--json", *model).stdout)
    assert report["files"][str(path)]["verdict"] == verdict


def test_values_that_python_confuses_stay_apart(tmp_path: Path) -> None:
    """1, 1.0 and true are three values in EDN, 1 and true two in JSON."""
    for written, read in (("1", "true"), ("1", "1.0"), ('"a"', ":a"), ("[1]", "#{1}"), ("{1 2}", "#{[1 2]}")):
        path = write(
            tmp_path / "a.edn",
            f"{{:process 0, :type :invoke, :f :write, :value {written}}}",
            f"{{:process 0, :type :ok, :f :write, :value {written}}}",
            "{:process 0, :type :invoke, :f :read, :value nil}",
            f"{{:process 0, :type :ok, :f :read, :value {read}}}",
        )
        assert run(path, "--model", "register").return_value == 1, (written, read)
        path.write_text(path.read_text().replace(f":read, :value {read}", f":read, :value {written}"))
        assert run(path, "--model", "register").return_value == 0, written
    path = write(tmp_path / "a.jsonl", *OK_LINES[:3], OK_LINES[3].replace("3}", "true}"))
    assert run(path, "--model", "register").return_value == 1


def test_edn_values() -> None:
    text = '{:a ["x\\n\\u0041" \\c 1/2 -3 12N 1.5 nil true sym #{1} (1 2) {:k :v}]} ; end'
    ((position, value),) = forms(text, exact=True)
    assert position == 0
    assert value == {
        Word(":a"): (
            "x\nA", Word("\\c"), Word("1/2"), -3, 12, Word("1.5"), None, Word("true"), Word("sym"),
            frozenset({1}), (1, 2), FrozenMap({(Word(":k"), Word(":v"))}),
        )
    }  # fmt: skip


@examples(100, 1000)
@given(st.text(alphabet='{}[]()#_"\\:;, \n01ab.nil-', max_size=60), st.sampled_from(sorted(readers_of(OPERATIONS))))
def test_any_text_is_read_or_refused(text: str, name: str) -> None:
    try:
        history = pair_operations(READERS[name].read(text, "test"), "test", name)
    except InputError as error:
        refused = str(error)
    else:
        refused = "test:"
        assert len(history.lines) == len(history.operations)
    assert refused.startswith("test:")


@examples(30, 600)
@given(st.sampled_from(["etcd_101.log", "c01-ok.txt"]), st.integers(0, 6000), st.binary(max_size=3))
def test_damage_is_an_error_or_a_history(
    tmp_path_factory: pytest.TempPathFactory, name: str, at: int, put: bytes
) -> None:
    data = (DATA / name).read_bytes()
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(data[:at] + put + data[at + 1 :])
    result = run(path)
    assert result.exception is None
    assert result.return_value in (0, 1, 2)


@pytest.mark.parametrize(
    ("head", "as_log", "as_operations"),
    [
        (b'{"process": "p", "type": "invoke", "op": 0, "f": "send", "value": "a", "time": 0}', "native", "native"),
        (b'{"process": 1, "type": "invoke", "f": "send", "value": "a"}', "native", "jsonl"),
        (b"{:process 0, :type :ok, :f :poll, :value [[:poll {1 [[0 2]]}]]}", "jepsen", "jepsen"),
        (b"{:process 0, :type :ok, :f :read, :value 1}", "edn", "edn"),
        (b"INFO  jepsen.util - 0\t:invoke\t:read\tnil", "register-log", "register-log"),
        (b'{"name": "startup_complete"}', "verifiable", "jsonl"),
        (b"hello", None, None),
    ],
)
def test_one_registry_recognises_all_formats(head: bytes, as_log: str | None, as_operations: str | None) -> None:
    assert recognise(head, LOG) == as_log
    assert recognise(head, OPERATIONS) == as_operations


def test_check_sends_general_operations_to_linearize(tmp_path: Path) -> None:
    path = write(tmp_path / "a.edn", "{:process 0, :type :ok, :f :read, :value 1}")
    found = r"a.edn: found general operations \(edn\), expected the history of a replicated log; `logjudge linearize`"
    with pytest.raises(InputError, match=found):
        open_run(path)
