"""A module a format, and one READERS dict: the order is the order of recognition.

A reader has NAME, `recognises(head) -> bool`, and `parse(blob, source) -> (EVENTS, QUARANTINE)`, where a blob is
whole lines, lines count from 0, and no bytes whatever raise.
"""

from __future__ import annotations

from types import ModuleType

from . import jepsen, native, verifiable

READERS: dict[str, ModuleType] = {
    "native": native,
    "jepsen": jepsen,
    "verifiable": verifiable,
}


def recognise(head: bytes) -> str | None:
    """The name of the format that the first bytes (decompressed) are of, or None."""
    return next((name for name, reader in READERS.items() if reader.recognises(head)), None)
