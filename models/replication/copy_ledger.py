"""The record of the group's topic from which each copy was made. No part of the protocol reads it."""

from __future__ import annotations

from typing import NamedTuple


class Copy(NamedTuple):
    """A copy, by its value."""

    producer: int
    partition: int
    number: int  # of the producer's values in the partition


class Source(NamedTuple):
    """A record that was copied."""

    partition: int
    offset: int


CopyLedger = dict[Copy, Source]  # filled by processors; models/exploration/processing_invariants.py checks it
