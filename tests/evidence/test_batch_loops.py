"""The loops over segments, interpreted and compiled, make the same tables of any bytes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logjudge.histories.evidence import batch_loops
from logjudge.histories.evidence.segments import parse
from polars.testing import assert_frame_equal

from .test_segments import batch, legacy, marker, with_right_crc

TEXTS = st.lists(st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=9).map(str.encode)), max_size=6)


def tables(data: bytes, plain: bool) -> tuple[object, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_loops, "COMPILED_FROM", 1 << 60 if plain else 0)
        array = np.frombuffer(data, dtype=np.uint8)
        assert batch_loops.loops_for(array) is (batch_loops.PLAIN if plain else batch_loops.compiled())
        found = parse(array)
    return found.batches, found.records, found.damage


def assert_same(data: bytes) -> None:
    for one, other in zip(tables(data, plain=True), tables(data, plain=False), strict=True):
        assert_frame_equal(one, other)


@given(st.lists(st.tuples(TEXTS, st.integers(0, 4)), max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_same_tables_of_sound_and_of_changed_bytes(batches, rng):
    data, offset = bytearray(), 0
    for values, codec in batches:
        headers = [("h", b"\xff")] if codec == 2 else []
        data += batch(values, offset, codec, codec, keys=values[::-1], headers=headers) if values else marker(1, offset)
        offset += max(len(values), 1)
    assert_same(bytes(data))
    for _ in range(rng.randrange(4) if data else 0):
        data[rng.randrange(len(data))] = rng.randrange(256)
    assert_same(bytes(data[: rng.randrange(len(data) + 1)]))


@given(TEXTS.filter(len), st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_the_same_records_of_a_batch_with_a_right_crc_and_a_wrong_payload(values, rng):
    data = bytearray(batch(values, 7))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(57, len(data))] = rng.randrange(256)
    assert_same(with_right_crc(data))


@pytest.mark.parametrize("at", [61, 66], ids=["record", "key"])
def test_a_length_near_the_largest_integer_is_damage(at):
    data = bytearray(batch([b"v" * 30], 3, keys=[b"k" * 30]))
    data[at : at + 10] = b"\xfe" + b"\xff" * 8 + b"\x01"
    _, records, damage = tables(with_right_crc(data), plain=False)
    assert (len(records), damage["kind"].to_list()) == (0, ["decode"])
    assert_same(with_right_crc(data))


@pytest.mark.parametrize("magic", [0, 1])
def test_the_same_tables_of_message_sets(magic):
    assert_same(legacy([b"a", None, b"c"], magic, keys=[None, b"k", b""]) + b"\0" * 40)


def test_a_small_segment_loads_no_compiler(tmp_path):
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(batch([b"a", b"b"]))
    program = "import sys; from pathlib import Path; from logjudge.histories.evidence.segments import read_segment;"
    program += f"print(len(read_segment(Path({str(file)!r})).records), 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False"]
