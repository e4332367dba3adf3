"""Histories of operations on Spark: the judgements, minimal failures, pictures and errors of the local engine."""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from logjudge.analysis.linearizability.linearize import Request
from logjudge.cli.linearize import _judge, _outcome
from logjudge.histories.errors import LogjudgeError
from logjudge.plots.linearization import draw
from operation_files import DATA

MEMORY = 1 << 30
FULL = Request("register", None, MEMORY, minimal=True, picture=True)
Event = dict[str, Any]
Judge = Callable[[str, Request], Any]


@pytest.fixture
def judge(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Judges a file on Spark, in splits of 6 kB and buckets of 20 kB; it returns what is shown, or the error."""
    from logjudge.analysis.engines.spark import linearize

    monkeypatch.setattr(linearize, "SPLIT_BYTES", 6_000)
    monkeypatch.setattr(linearize, "BUCKET_BYTES", 20_000)
    return lambda path, request: shown(lambda: linearize.judge_file(spark, path, None, request))


def shown(judge: Callable[[], Any]) -> Any:
    """The output of a judgement without its duration; or the message of an error."""
    try:
        judgement, minimal = judge()
    except LogjudgeError as error:
        return str(error)
    entry = {**_outcome(judgement, minimal), "seconds": 0}
    return entry, draw(judgement, minimal), len(judgement.history.operations) + judgement.history.others


def local(path: str, request: Request) -> Any:
    return shown(lambda: _judge(path, None, request))


def events(seed: int, count: int = 400, keys: int = 40, wrong: float = 0.0, clients: int = 6) -> Iterator[Event]:
    """A register's history for each key, with unique values; a wrong read returns an earlier value."""
    rng, states = Random(seed), {key: [None] for key in range(keys)}
    running: dict[int, tuple[Event, Any]] = {}
    names, begun = list(range(clients)), 0
    while begun < count or running:
        place = rng.randrange(clients)
        if place in running:
            event, result = running.pop(place)
            kind = rng.choices(("ok", "info", "fail"), (40, 1, 1))[0]
            if kind == "fail" and event["f"] == "write":  # it had an effect
                kind = "info"
            if kind != "ok":
                names[place] += clients
            value = result if event["f"] == "read" and kind == "ok" else event["value"]
            yield {**event, "type": kind, "value": value}
        elif begun < count:
            begun += 1
            key, f = rng.randrange(keys), rng.choice(("read", "write"))
            values = states[key]
            event = {"process": names[place], "type": "invoke", "f": f, "key": key, "value": None}
            if f == "write":
                event["value"] = begun
                values.append(begun)
            result = values[-3] if len(values) > 3 and rng.random() < wrong else values[-1]
            running[place] = event, result
            yield event
            if rng.random() < 0.02:
                yield {"note": f"fault {begun}"}


def jsonl(found: Iterator[Event], timed: bool = False) -> str:
    return "".join(json.dumps({**event, "time": 7 * at} if timed else event) + "\n" for at, event in enumerate(found))


def edn(found: Iterator[Event], pairs: bool) -> str:
    """Jepsen's history.edn, with keys in pairs or as `:key`."""
    lines = []
    for event in found:
        if "note" in event:
            lines.append("{:process :nemesis, :type :info, :f :kill, :value nil}")
            continue
        value = "nil" if event["value"] is None else event["value"]
        key = f":value [{event['key']} {value}]" if pairs else f":key {event['key']}, :value {value}"
        lines.append(f"{{:process {event['process']}, :type :{event['type']}, :f :{event['f']}, {key}}}")
    return "\n".join(lines) + "\n"


def whole_operations(seed: int) -> str:
    """An operation a line, with times that overlap; some have no process and some no end."""
    rng, lines = Random(seed), []
    for at in range(300):
        key, f = rng.randrange(30), rng.choice(("read", "write"))
        line = {
            "f": f,
            "value": at if f == "write" else None,
            "key": str(key),
            "call": at,
            "end": at + rng.randrange(9),
        }
        if at % 5:
            line["process"] = at % 7
        if at % 11 == 0:
            del line["end"]
        elif f == "read":
            line["result"] = rng.randrange(max(1, at - 40), at + 1) if at % 3 else None
        lines.append(json.dumps(line))
    return "\n".join(lines) + "\n"


HISTORIES = {
    "valid.jsonl": lambda: jsonl(events(1)),
    "wrong.jsonl": lambda: jsonl(events(2, wrong=0.04)),
    "timed.jsonl": lambda: jsonl(events(3, wrong=0.04), timed=True),
    "hot.jsonl": lambda: jsonl(events(4, keys=1, wrong=0.02)),
    "whole.jsonl": lambda: whole_operations(5),
    "pairs.edn": lambda: edn(events(6, wrong=0.04), pairs=True),
    "keys.edn": lambda: edn(events(7, wrong=0.04), pairs=False),
    "vector.edn": lambda: "[" + edn(events(8, wrong=0.04), pairs=True).replace(", :f", "\n :f") + "]\n",
    "empty.jsonl": lambda: '{"note": "nothing happened"}\n',
}


@pytest.mark.spark
@pytest.mark.parametrize("name", HISTORIES)
def test_spark_shows_what_one_process_shows(judge: Judge, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(HISTORIES[name]())
    expected = local(str(path), FULL)
    assert expected[0]["verdict"] == ("ok" if name in ("valid.jsonl", "empty.jsonl") else "illegal")
    assert judge(str(path), FULL) == expected


@pytest.mark.spark
def test_spark_reads_a_uri_and_a_compressed_file(judge: Judge, spark: Any, tmp_path: Path) -> None:
    text, folder, cluster = HISTORIES["wrong.jsonl"](), tmp_path / "stored", f"c{uuid.uuid4().hex}"
    folder.mkdir()
    (folder / "h.jsonl").write_text(text)
    (folder / "h.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    spark.conf.set(f"fs.viewfs.mounttable.{cluster}.link./stored", f"file://{folder}")
    entry, _, count = local(str(folder / "h.jsonl"), FULL._replace(picture=False))
    for path in (str(folder / "h.jsonl.gz"), *(f"viewfs://{cluster}/stored/h.jsonl{end}" for end in ("", ".gz"))):
        found, _, number = judge(path, FULL._replace(picture=False))
        assert (found, number) == (entry, count)
    assert "found a folder" in judge(f"viewfs://{cluster}/stored", FULL)


LINES = jsonl(events(9, clients=3)).splitlines()
ERRORS = {
    "a completion without an invocation": (300, '{"process": 99, "type": "ok", "f": "read"}'),
    "a second invocation, splits later": (390, LINES[0]),
    "a completion of another function": (
        395, '{"process": "x", "type": "invoke", "f": "read", "key": 1}\n' + "\n".join(LINES[395:470])
        + '\n{"process": "x", "type": "ok", "f": "write", "key": 1}',
    ),
    "a time where the others have none": (410, '{"process": 99, "type": "invoke", "f": "read", "time": 5}'),
    "no JSON": (420, "{"),
    "a byte that is not UTF-8": (430, b"\xff"),
    "a function that the model lacks": (440, '{"process": 99, "type": "invoke", "f": "pop", "key": 1}'),
}  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("name", ERRORS)
def test_spark_names_the_same_line_of_an_error(judge: Judge, tmp_path: Path, name: str) -> None:
    at, wrong = ERRORS[name]
    lines = [line.encode() for line in LINES]
    if name.startswith("a second"):
        process = json.loads(LINES[0])["process"]
        lines = [line for line in lines[1:] if json.loads(line).get("process") != process]
        lines = [LINES[0].encode(), *lines]
    lines.insert(at, wrong if isinstance(wrong, bytes) else wrong.encode())
    path = tmp_path / "h.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    expected = local(str(path), FULL)
    assert isinstance(expected, str)
    assert judge(str(path), FULL) == expected


@pytest.mark.spark
def test_spark_finds_the_model_and_takes_a_users_own(judge: Judge, tmp_path: Path) -> None:
    path, module = tmp_path / "h.jsonl", tmp_path / "own.py"
    path.write_text(HISTORIES["wrong.jsonl"]())
    module.write_text(
        "class Own:\n    initial = None\n    def step(self, state, operation):\n"
        "        if operation.f == 'write': return operation.value\n"
        "        return state if operation.result == state or state is None else None\n"
        "    def partition(self, operation): return ('of', operation.key)\n"
    )
    for model in (None, f"{module}:Own"):
        request = FULL._replace(model=model)
        assert judge(str(path), request) == local(str(path), request)
    assert judge(str(DATA / "c01-bad.txt"), FULL._replace(model=None)) == local(
        str(DATA / "c01-bad.txt"), FULL._replace(model=None)
    )


@pytest.mark.spark
def test_spark_reports_unknown_where_memory_ends(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(HISTORIES["valid.jsonl"]())
    request = FULL._replace(memory=1)
    assert local(str(path), request)[0]["verdict"] == "unknown"
    assert judge(str(path), request) == local(str(path), request)
