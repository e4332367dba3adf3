"""Kafka's wire types as bytes, as far as coordinators' records need them."""

from __future__ import annotations


def integer(value: int, width: int) -> bytes:
    """A signed number of so many bytes."""
    return value.to_bytes(width, "big", signed=True)


def string(text: str | None) -> bytes:
    """A string after its length; None: null."""
    return integer(-1, 2) if text is None else integer(len(text.encode()), 2) + text.encode()
