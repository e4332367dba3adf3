"""Calls on a history that grows: each has the findings and the verdict of one call on the whole history so far."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import polars as pl
import pytest
from campaign import IS_CAMPAIGN, examples
from combined_corpus import BREAKING, HISTORIES, combine
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.incremental import closing, judging
from logjudge.analysis.incremental.judging import Call, judge_appended, not_yet
from logjudge.analysis.incremental.key_set import KeySet, keys_of
from logjudge.analysis.incremental.state import load_state, save_state
from logjudge.analysis.verdict.document import report_of
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError
from notation import History, parse
from test_ranges import BETWEEN
from test_screening import random_texts, together

SAME = ("verdict", "counts", "causes", "incidents")


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of two offsets, which are closed at once."""
    monkeypatch.setattr(judging, "RANGE_OFFSETS", 2)
    monkeypatch.setattr(closing, "LATENESS_NS", 0)
    monkeypatch.setattr(judging, "MAX_RANGES_BEHIND", 4)


def grow(history: History, folder: Path, cuts: Iterable[int]) -> Iterator[tuple[Path, Call]]:
    """The run after each call; before a call its history grows up to so many bytes."""
    run = history.write(folder / "whole")
    lines = (run / "history.jsonl").read_bytes()
    growing = folder / "run"
    growing.mkdir()
    (growing / "run.json").write_bytes((run / "run.json").read_bytes())
    written = 0
    first = lines.index(b"\n") + 1
    for cut in [*sorted(max(cut, first) for cut in cuts), len(lines)]:
        with (growing / "history.jsonl").open("ab") as file:
            file.write(lines[written:cut])
        written = max(cut, written)
        yield growing, call(growing, folder / "state")


def call(run: Path, file: Path) -> Call:
    done = judge_appended(open_run(run), load_state(file), str(file))
    save_state(file, done.state)
    return done


def compare(history: History, cuts: Sequence[int], only_last: bool = False) -> Iterator[Call]:
    with tempfile.TemporaryDirectory() as name:
        for number, (run, done) in enumerate(grow(history, Path(name), cuts)):
            yield done
            if number < len(cuts) and only_last:
                continue
            assert_same(run, done)


def assert_same(run: Path, done: Call) -> None:
    """Asserts that a call has the results of one call on the whole; a rule may also be undecided yet."""
    history = run / "history.jsonl"
    growing = history.read_bytes()
    history.write_bytes(
        growing[: done.state.positions["history.jsonl"].bytes]
    )  # without the line that is being written
    whole = judge_run(open_run(run))
    history.write_bytes(growing)
    assert done.results.findings().equals(whole.findings())
    mine, other = report_of(done.results, ""), report_of(whole, "")
    pending = {*not_yet(mine, done.results)}
    for name, rule in other["rules"].items():
        found = mine["rules"][name]
        # A breach that was found may not be the only one yet.
        known = rule if found["complete"] else {**rule, "complete": False}
        assert found == known or (name in pending and rule["verdict"] == "valid"), name
    assert {name: mine[name] for name in SAME} == {name: other[name] for name in SAME}


def random_cuts(random: Random, history: History, count: int) -> list[int]:
    size = sum(len(str(event)) for event in history.events)
    return [random.randrange(size) for _ in range(count)]


@pytest.mark.thorough
def test_the_corpus_is_judged_the_same_in_calls() -> None:
    random, closed = Random(1), 0
    runs = combine(HISTORIES if IS_CAMPAIGN else BREAKING)
    for run in runs:
        for done in compare(run.history, random_cuts(random, run.history, 4), only_last=not IS_CAMPAIGN):
            closed += len(done.state.carried.closed) if done.state.carried else 0
    assert closed, "offsets of some partitions are closed, or the calls differ in nothing"


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", BETWEEN)
def test_rows_that_contradict_closed_offsets_are_judged(name: str) -> None:
    history = parse(BETWEEN[name][0])
    list(compare(history, random_cuts(Random(name), history, 4 if IS_CAMPAIGN else 2), only_last=not IS_CAMPAIGN))


def soak(random: Random, records: int) -> str:
    """A run in the notation: a producer, one or two groups that follow it and commit, and perhaps a mistake."""
    words = ["{c.group.id=g d.group.id=h}", "c:group=0"]
    offset, read = 0, {"c": 0, "d": 0}
    log: list[str] = []
    while offset < records:
        step = random.random()
        reader = random.choice("cccd")
        if step < 0.6:
            value = f"v{offset}"
            words.append(f"p:{value}@{offset}" if random.random() < 0.9 else f"p:{value}?~")
            log.append(value)
            offset += 1
        elif step < 0.9 and read[reader] < offset:
            until = min(offset, read[reader] + random.randrange(1, 6))
            words.append(f"{reader}:<" + ",".join(f"{log[at]}@{at}" for at in range(read[reader], until)))
            read[reader] = until
            words += [f"{reader}:commit={until}"] if random.random() < 0.5 else []
        elif step > 0.97:
            words.append(f"end={offset}")
    if random.random() < 0.5:
        at = random.randrange(2, len(words))
        mistake = random.choice(["drop", "repeat", "swap", "later"])
        if mistake == "drop":
            del words[at]
        elif mistake == "swap":
            words[at - 1 : at + 1] = words[at - 1 : at + 1][::-1]
        else:
            words.insert(at if mistake == "repeat" else len(words), words[at])
    if random.random() < 0.3:
        words.append("final:assign=0 final:<" + ",".join(f"{value}@{at}" for at, value in enumerate(log)))
    return " ".join(words)


@pytest.mark.thorough
@examples(3, 40)
@given(st.randoms(use_true_random=False))
def test_random_soaks_are_judged_the_same_in_calls(random: Random) -> None:
    history = parse(soak(random, 30))
    list(compare(history, random_cuts(random, history, 3)))


@examples(2, 40)
@given(st.randoms(use_true_random=False))
def test_random_histories_are_judged_the_same_in_calls(random: Random) -> None:
    history = together(random_texts(random, 6))
    list(compare(history, random_cuts(random, history, 3), only_last=True))


def test_a_call_reads_what_was_appended_and_its_state_is_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(judging, "RANGE_OFFSETS", 64)
    text = "p:a0@0 c:<a0@0 " + " ".join(f"p:a{n}@{n} c:<a{n}@{n}" for n in range(1, 4000))
    history = parse(text)
    size = sum(len(json.dumps(event)) + 1 for event in history.events)
    sizes, wholes = [], []
    for run, done in grow(history, tmp_path, [size * part // 8 for part in range(1, 8)]):
        wholes.append(done.whole)
        sizes.append((run.parent / "state").stat().st_size)
        assert done.read < size / 7
        assert done.state.carried
        assert sum(len(frame) for _, _, frame in done.state.carried.rows.observations) < 2 * 4 * 64
    assert wholes == ["no earlier call", *[""] * 7]
    assert max(sizes) < 2 * min(sizes)


def test_a_call_without_a_state_that_fits_reads_the_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(judging, "MAX_CARRIED_ROWS", 0)
    calls = [done for _, done in grow(parse("p:a@0 p:b@1 p:d@2 c:<a@0,b@1,d@2"), tmp_path, [300, 900])]
    assert [done.whole for done in calls][-1] == "the state has no rows of earlier calls"
    assert_same(tmp_path / "run", calls[-1])


def test_other_formats_are_judged_whole(tmp_path: Path) -> None:
    """A Jepsen history and a compressed one."""
    run = tmp_path / "history.edn"
    run.write_text("{:index 0 :type :ok, :f :send, :process 0, :time 1, :value [[:send 1 [0 5]]]}\n")
    assert "only uncompressed JSON lines" in call(run, tmp_path / "state").whole
    assert "only uncompressed JSON lines" in call(run, tmp_path / "state").whole


def test_several_files_are_read_on(tmp_path: Path) -> None:
    events = parse("p:a@0 c:<a@0 p:b@1 c:<b@1").write(tmp_path / "whole") / "history.jsonl"
    lines = events.read_text().splitlines(keepends=True)
    run = tmp_path / "run"
    (run / "history").mkdir(parents=True)
    (run / "run.json").write_text((tmp_path / "whole" / "run.json").read_text())
    for count in (4, len(lines)):
        for name, process in (("b.jsonl", '"p"'), ("a.jsonl", '"c"')):
            (run / "history" / name).write_text("".join(line for line in lines[:count] if process in line))
        done = call(run, tmp_path / "state")
    assert not done.whole
    assert done.results.findings().is_empty()
    assert report_of(done.results, "")["counts"] == report_of(judge_run(open_run(run)), "")["counts"]


def test_changed_settings_are_judged_anew(tmp_path: Path) -> None:
    run = parse("p:a@0 c:<a@0").write(tmp_path / "run")
    call(run, tmp_path / "state")
    config = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**config, "name": "another"}))
    assert call(run, tmp_path / "state").whole


def test_a_last_line_without_a_line_feed_counts_once(tmp_path: Path) -> None:
    run = parse("p:a@0 p:b@1 c:<a@0,b@1").write(tmp_path / "run")
    history = run / "history.jsonl"
    whole = history.read_bytes()
    cut = whole.index(b"\n", 200)
    history.write_bytes(whole[:cut])
    call(run, tmp_path / "state")
    history.write_bytes(whole)
    assert_same(run, call(run, tmp_path / "state"))


def damaged_states(good: bytes) -> Iterator[bytes]:
    yield b""
    yield b"{}"
    yield good[:-30]
    yield good[: len(good) // 2]
    for number in range(60, len(good), max(len(good) // (25 if IS_CAMPAIGN else 8), 1)):
        yield good[:number] + bytes([good[number] ^ 0x55]) + good[number + 1 :]


def with_member(file: Path, name: str, content: bytes) -> bytes:
    changed = io.BytesIO()
    with zipfile.ZipFile(file) as before, zipfile.ZipFile(changed, "w") as after:
        for member in before.namelist():
            after.writestr(member, content if member == name else before.read(member))
    return changed.getvalue()


def test_damaged_states_are_refused_or_change_nothing(tmp_path: Path) -> None:
    run = parse(soak(Random(3), 20)).write(tmp_path / "run")
    file = tmp_path / "state"
    findings = call(run, file).results.findings()
    good = file.read_bytes()
    content = json.loads(zipfile.ZipFile(file).read("state.json"))
    hostile = [b"[]", b"null", b"[" * 100_000, json.dumps({**content, "version": 2}).encode()]
    hostile += [json.dumps({**content, "files": {"history.jsonl": {"bytes": -5}}}).encode()]
    hostile += [json.dumps({**content, "carried": {"counts": 7, "closed": [{}]}}).encode()]
    states = [*damaged_states(good), *(with_member(file, "state.json", text) for text in hostile)]
    states += [with_member(file, name, b"PAR1 nothing PAR1") for name in ("sends.parquet", "operations.parquet")]
    refused = []
    for state in states:
        file.write_bytes(state)
        try:
            assert call(run, file).results.findings().equals(findings)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > len(hostile)
    assert all(str(file) in sentence and "\n" not in sentence for sentence in refused)


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"garbage", "a file that is not a state, or a part of one"), (b"", "a zip archive that is not a state")],
)
def test_another_file_is_refused_in_our_own_words(tmp_path: Path, content: bytes, found: str) -> None:
    file = tmp_path / "state"
    file.write_bytes(content)
    if not content:
        zipfile.ZipFile(file, "w").close()
    expected = "a state that `logjudge check --state` wrote; name another file, or remove it to begin anew"
    with pytest.raises(InputError) as refused:
        load_state(file)
    assert str(refused.value) == f"{file}: found {found}, expected {expected}"


def test_a_rewritten_history_and_another_run_are_refused(tmp_path: Path) -> None:
    run = parse("p:a@0 p:b@1 c:<a@0,b@1").write(tmp_path / "run")
    call(run, tmp_path / "state")
    history = run / "history.jsonl"
    lines = history.read_bytes()
    for changed in (lines.replace(b'"a"', b'"x"'), lines[:-40]):
        history.write_bytes(changed)
        with pytest.raises(InputError, match="rewritten"):
            call(run, tmp_path / "state")
    other = parse("p:a@0").write(tmp_path / "other") / "history.jsonl"
    with pytest.raises(InputError, match="rewritten"):
        call(other, tmp_path / "state")
    renamed = other.rename(tmp_path / "more.jsonl")
    with pytest.raises(InputError, match="which this run lacks"):
        call(renamed, tmp_path / "state")


def test_key_sets_hold_what_they_were_given() -> None:
    values = pl.Series([f"p{number % 3}-{number}" for number in range(1000)] + ["", "7", "007", "x", "é1", "9" * 30])
    held = KeySet().with_keys(keys_of(values[::2])).with_keys(keys_of(values[1::2]))
    assert all(held.holds_any(keys_of(pl.Series([value]))) for value in values)
    others = pl.Series(["p0-1", "p1-3", "8", "y", "0", "07", "p0-1000000"])
    assert not any(held.holds_any(keys_of(pl.Series([value]))) for value in others)
    assert len(KeySet().with_keys(keys_of(pl.Series([f"p-{n}" for n in range(10_000)]))).first) == 1
