"""Makes tables of the records that the loops decoded: texts, digests, markers, and dropped ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...models.arrays import Bytes, Ints
from .batch_headers import APPEND_TIME_BIT, CONTROL_BIT, TRANSACTIONAL_BIT
from .batch_layout import ATTRIBUTES, BASE, BASE_TIMESTAMP, BYTE, EPOCH, MAGIC, MAX_TIMESTAMP, PRODUCER, PRODUCER_EPOCH
from .batch_loops import loops_for
from .record_schema import control_type
from .tables import DROPPED, RECORDS, null_where_negative


def record_frame(buf: Bytes, headers: Ints, spans: Ints, row_of: Ints, at: int) -> pl.DataFrame:
    """RECORDS. `spans` as loops.decode_v2 fills them, `row_of` their rows in `headers`, `at` the range's byte."""

    def of_batch(column: int) -> Ints:
        return np.ascontiguousarray(headers[:, column])[row_of]

    attributes, magic = of_batch(ATTRIBUTES), of_batch(MAGIC)
    append_time = (attributes & APPEND_TIME_BIT) != 0
    control = (magic == 2) & ((attributes & CONTROL_BIT) != 0)
    # With LogAppendTime all records have the batch's maximum timestamp. Legacy deltas are zero.
    timestamps = np.where(append_time, of_batch(MAX_TIMESTAMP), of_batch(BASE_TIMESTAMP) + spans[:, 1])
    digest = np.empty(len(spans), dtype=np.uint64)
    loops_for(buf).digests(buf, spans, digest)
    frame = pl.DataFrame(
        {
            "offset": of_batch(BASE) + spans[:, 0],
            "leader_epoch": of_batch(EPOCH),
            "timestamp": timestamps,
            "key": _text(buf, spans[:, 2], spans[:, 3], digest),
            "value": _text(buf, spans[:, 4], spans[:, 5], digest),
            "digest": digest,
            "producer_id": of_batch(PRODUCER),
            "producer_epoch": of_batch(PRODUCER_EPOCH),
            "transactional": (magic == 2) & ((attributes & TRANSACTIONAL_BIT) != 0),
            "control": _control_types(buf, spans, control),
            "byte": of_batch(BYTE) + at,
        }
    )
    return frame.with_columns(
        *null_where_negative("leader_epoch", "producer_id", "producer_epoch", "timestamp"),
        # The key and value of a marker are binary data of Kafka, not a message.
        *(pl.when(pl.col("control").is_null()).then(pl.col(n)).alias(n) for n in ("key", "value")),
    ).select(pl.col(name).cast(dtype) for name, dtype in RECORDS.items())


def _text(buf: Bytes, starts: Ints, lengths: Ints, digest: Any) -> pl.Series:
    """Slices of the bytes as text: null for length -1, "bytes:" and the digest where they are not UTF-8."""
    whole = pl.lit(pl.Series([buf.tobytes()])).first()
    present = pl.col("length") >= 0
    slices = (
        pl.DataFrame({"start": starts, "length": lengths})
        .select(pl.when(present).then(whole.bin.slice("start", pl.col("length").clip(0))))
        .to_series()
    )
    try:
        return slices.cast(pl.String)
    except pl.exceptions.ComputeError:  # some are not UTF-8
        return pl.Series(map(_decoded, slices, digest.tolist()), dtype=pl.String)


def _decoded(data: bytes | None, digest: int) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return f"bytes:{digest:016x}"


def _control_types(buf: Bytes, spans: Ints, control: Any) -> pl.Series:
    """The type of each control record."""
    if not control.any():
        return pl.repeat(None, len(spans), dtype=pl.String, eager=True)
    types: list[str | None] = [None] * len(spans)
    for index in np.flatnonzero(control):
        start, length = int(spans[index, 2]), int(spans[index, 3])
        types[index] = control_type(buf[start : start + max(length, 0)].tobytes())
    return pl.Series(types, dtype=pl.String)


def dropped_frame(headers: Ints, offsets: Ints, row_of: Ints, at: int) -> pl.DataFrame:
    """DROPPED of the records of v2 batches at these offsets: adjacent records of one batch are one range."""
    breaks = np.flatnonzero((np.diff(offsets) != 1) | (np.diff(row_of) != 0))
    firsts = np.concatenate([[0], breaks + 1])[: len(offsets)]
    lasts = np.concatenate([breaks, [len(offsets) - 1]])[: len(offsets)]
    head = headers[row_of[firsts]]
    frame = pl.DataFrame(
        {
            "first_offset": offsets[firsts],
            "last_offset": offsets[lasts],
            "leader_epoch": head[:, EPOCH],
            "producer_id": np.where(head[:, ATTRIBUTES] & TRANSACTIONAL_BIT != 0, head[:, PRODUCER], -1),
            "byte": head[:, BYTE] + at,
        }
    )
    return frame.with_columns(null_where_negative("leader_epoch", "producer_id")).cast(DROPPED)  # type: ignore[arg-type]
