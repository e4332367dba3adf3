"""Headers of the batches in a range of a segment: the walk, what breaks it, and what cannot be believed.

The base offset, the length and the leader epoch of a batch stand before its CRC. A flipped bit in the length
breaks the walk, which goes on at the next whole batch; one in the offset or the epoch shows by the
neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import batch_kernels as kernels
from .batch_kernels import BASE, BYTE, CRC2, EPOCH, HEADERS, LAST, MAGIC
from .tables import damage_row

CODEC_BITS, APPEND_TIME_BIT, TRANSACTIONAL_BIT, CONTROL_BIT = 0x07, 0x08, 0x10, 0x20

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Ints = np.ndarray[Any, np.dtype[np.int64]]


def walk_headers(data: Bytes, at: int = 0, first_offset: int = 0) -> tuple[Ints, list[dict[str, object]]]:
    """The headers of all batches in the bytes, as rows of HEADERS, and what broke the walk."""
    parts: list[Ints] = []
    damage: list[dict[str, object]] = []
    pos, end = 0, len(data)
    least = first_offset
    while pos < end:
        n, stopped, status = kernels.count_batches(data, pos, end)
        if n:
            out = np.empty((n, len(HEADERS)), dtype=np.int64)
            kernels.scan(data, pos, n, kernels.CRC32, kernels.CRC32C, out)
            parts.append(out)
            good = out[(out[:, CRC2] & 1) == 1]
            good = good[~out_of_place(good[:, BASE], good[:, LAST])]
            if len(good):
                least = max(least, int(good[-1, LAST]) + 1)
        pos = int(stopped)
        if pos >= end:
            break
        if status == kernels.ZEROS and kernels.all_zeros(data, pos, end):
            damage.append(damage_row("zeros", f"{end - pos} bytes of zeros end the file", at + pos, None, least))
            break
        found = int(kernels.resync(data, pos + 1, end, least, kernels.CRC32, kernels.CRC32C))
        damage.append(_broken(data, pos, found, end, int(status), at, least))
        pos = found
    return (np.concatenate(parts) if parts else np.empty((0, len(HEADERS)), np.int64)), damage


def out_of_place(first: Ints, last: Ints) -> Any:
    """Which entries of a sequence that should rise do not fit between neighbours that fit each other.

    The base offset and the leader epoch of a batch stand before its CRC, so a flipped bit there shows only
    by its neighbours. The first and the last entry have one neighbour, and pass.
    """
    wrong = np.zeros(len(first), dtype=bool)
    if len(first) > 2:
        around = last[:-2] < first[2:]
        wrong[1:-1] = around & ((first[1:-1] <= last[:-2]) | (last[1:-1] >= first[2:]))
    return wrong


def distrust(headers: Ints, crc_ok: Any, at: int, damage: list[dict[str, object]]) -> Any:
    """Batches whose base offset cannot be right are not believed; epochs that cannot be are forgotten."""
    sound = np.flatnonzero(crc_ok)
    rows = headers[sound]
    misplaced = out_of_place(rows[:, BASE], rows[:, LAST])
    placed = np.flatnonzero(~misplaced)
    for index in np.flatnonzero(misplaced):
        # A small step back puts a batch and its neighbour out of place: both may hold all between the others.
        position = int(np.searchsorted(placed, index))
        before, after = int(rows[placed[position - 1], LAST]), int(rows[placed[position], BASE])
        reason = f"base offset {int(rows[index, BASE])} does not fit between offsets {before} and {after}"
        damage.append(
            damage_row("order", reason, at + int(rows[index, BYTE]), None, before + 1, max(after - 1, before + 1))
        )
    new = np.flatnonzero(~misplaced & (rows[:, MAGIC] == 2))
    epochs = rows[new, EPOCH]
    # Epochs may be equal to their neighbours', so the sequence is compared half a step apart.
    odd = out_of_place(2 * epochs, 2 * epochs - 1)
    for index in np.flatnonzero(odd):
        reason = f"leader epoch {int(epochs[index])} does not fit between {int(epochs[index - 1])} and "
        damage.append(damage_row("order", reason + str(int(epochs[index + 1])), at + int(rows[new[index], BYTE])))
    headers[sound[new[odd]], EPOCH] = -1
    trusted = crc_ok.copy()
    trusted[sound[misplaced]] = False
    return trusted


def _broken(data: Bytes, pos: int, found: int, end: int, status: int, at: int, least: int) -> dict[str, object]:
    """Damage where no batch can stand at pos, and the next whole one stands at `found`."""
    if found >= end and status == kernels.TORN:
        reason = f"the last {end - pos} bytes are the beginning of a batch that was not written to its end"
        return damage_row("torn-tail", reason, at + pos, None, least)
    kind, reason = {
        kernels.TORN: ("length", "the length of the batch reaches beyond the end of the file"),
        kernels.BAD_LENGTH: ("length", "no batch is that short"),
        kernels.BAD_MAGIC: (
            "magic",
            f"magic is {int(data[min(pos + 16, end - 1)])}, and 0, 1 and 2 are known",
        ),
        kernels.ZEROS: ("zeros", "zeros where a batch should stand"),
    }[status]
    if found >= end:
        return damage_row(kind, f"{reason}; no whole batch follows", at + pos, None, least)
    last = int(kernels.be(data, found, 8)) - 1
    reason += f"; the next whole batch stands at byte {at + found}"
    return damage_row(kind, reason, at + pos, None, least, max(last, least - 1))


def hidden(headers: Ints, sound: Any, index: int, first_offset: int) -> tuple[int, int | None]:
    """The offsets that a broken batch may have held: those between its sound neighbours. Its own header is
    not believed. None for the last: whatever followed.
    """
    before = np.flatnonzero(sound[:index])
    after = np.flatnonzero(sound[index + 1 :])
    first = int(headers[before[-1], LAST]) + 1 if len(before) else first_offset
    last = int(headers[index + 1 + after[0], BASE]) - 1 if len(after) else None
    return first, last if last is None or last >= first else first
