"""producer-epoch-order and aborted-index: cases that they find and leave alone, and naive twins."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .transaction_logs import aborted_index, contact, judged, write_run

S = 1_000  # ms

ORDERED = {
    "a marker of a fenced transaction": ("7a 7b^1 7!", {2}),
    "a zombie": ("7a^1 7b 7!^1", {1}),
    "two producers": ("7a^1 8b 7!^1 8!", set()),
    "a fenced transaction is aborted with the next epoch": ("7a 7~^1 7b^1 7!^1", set()),
    "it comes back after it was higher": ("7a^2 7b^1 7c^2 7d^1", {1, 3}),
}


@pytest.mark.parametrize("name", ORDERED)
def test_the_epochs_of_a_producer_do_not_go_back(name: str, tmp_path: Path) -> None:
    text, expected = ORDERED[name]
    found, verdict = judged(write_run(tmp_path, {0: text}, contact(1 * S)), "producer-epoch-order")
    assert {finding["first_offset"] for finding in found} == expected
    assert verdict == ("invalid" if expected else "valid")


@pytest.mark.thorough
@given(st.lists(st.tuples(st.sampled_from("78"), st.integers(0, 3)), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_the_order_of_epochs_agrees_with_a_twin(entries: list[tuple[str, int]]) -> None:
    text = " ".join(f"{pid}v{number}^{epoch}" for number, (pid, epoch) in enumerate(entries))
    with tempfile.TemporaryDirectory() as folder:
        found, _ = judged(write_run(Path(folder), {0: text}, contact(1 * S)), "producer-epoch-order")
    offsets = {at for one in found for at in range(one["first_offset"], one["last_offset"] + 1)}
    expected = set()
    for number, (pid, epoch) in enumerate(entries):
        if any(other == pid and earlier > epoch for other, earlier in entries[:number]):
            expected.add(number)
    assert expected <= offsets
    assert len(expected) == sum(one["count"] for one in found)


INDEXED: dict[str, tuple[list[tuple[int, int, int]], set[int]]] = {
    "all": ([(7, 0, 1), (8, 2, 3), (7, 4, 6)], set()),
    "without the first": ([(8, 2, 3), (7, 4, 6)], {0}),
    "without the last": ([(7, 0, 1), (8, 2, 3)], set()),  # it may have been copied before the segment
    "another producer's": ([(9, 0, 1), (8, 2, 3), (7, 4, 6)], {0}),
    "empty": ([], set()),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_has_all_aborted_transactions(name: str, tmp_path: Path) -> None:
    entries, expected = INDEXED[name]
    folder = write_run(tmp_path, {0: "7a 7~ 8b 8~ 7c 8~ 7~ 8d 8!"}, contact(1 * S))
    (folder / "brokers" / "1" / "data" / "x-0" / f"{0:020d}.txnindex").write_bytes(aborted_index(*entries))
    found, verdict = judged(folder, "aborted-index")
    assert {finding["first_offset"] for finding in found} == expected
    assert verdict == ("invalid" if expected else "valid")


@pytest.mark.thorough
@given(st.lists(st.sampled_from(["7a", "8a", "7~", "8~", "7!", "8!"]), max_size=10), st.integers(0, 1023))
@settings(max_examples=30, deadline=None)
def test_the_index_agrees_with_a_twin(entries: list[str], chosen: int) -> None:
    began: dict[str, int] = {}
    aborted = []
    for offset, entry in enumerate(entries):
        pid, what = entry[0], entry[1:]
        if what == "~" and pid in began:
            aborted.append((int(pid), began[pid], offset))
        began = (
            {**began, pid: began.get(pid, offset)} if what == "a" else {p: at for p, at in began.items() if p != pid}
        )
    index = [entry for number, entry in enumerate(aborted) if chosen >> number & 1]
    expected = {entry[1] for entry in aborted if entry not in index and index and entry[2] < index[-1][2]}
    text = " ".join(entry.replace("a", f"a{number}") for number, entry in enumerate(entries)) or "z"
    with tempfile.TemporaryDirectory() as name:
        folder = write_run(Path(name), {0: text}, contact(1 * S))
        (folder / "brokers" / "1" / "data" / "x-0" / f"{0:020d}.txnindex").write_bytes(aborted_index(*index))
        found, _ = judged(folder, "aborted-index")
    assert {finding["first_offset"] for finding in found} == expected
