"""The readers of histories: one module for each format, listed in READERS.

A reader has NAME, CONTENT and `recognises(head) -> bool`, where `head` holds the first bytes, decompressed. CONTENT
decides its other function:

- LOG, what clients did to a replicated log: `parse(blob, source) -> (EVENTS, QUARANTINE)`. A blob holds complete lines,
  `line` counts from 0, and `parse` never raises.
- TRANSACTIONS, transactions on lists or registers: `parse(blob, source) -> Transactions`, likewise.
- OPERATIONS, general operations on objects: `read(text, source)` yields `OperationLine`s. It raises InputError.
"""

from __future__ import annotations

from types import ModuleType

from ..errors import InputError
from . import elle_append, elle_register, jepsen, native, operations_edn, operations_jsonl, register_log, verifiable
from .contents import CHECKED, LOG, OPERATIONS, TRANSACTIONS
from .unrecognised import is_foreign

__all__ = ["CHECKED", "LOG", "OPERATIONS", "READERS", "TRANSACTIONS", "dialect_of", "readers_of", "recognise"]

# In the order of recognition.
READERS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        native,
        jepsen,
        verifiable,
        elle_append,
        elle_register,
        register_log,
        operations_jsonl,
        operations_edn,
    )
}


def readers_of(*contents: str) -> list[str]:
    """The names of the readers of some contents, such as LOG."""
    return [name for name, reader in READERS.items() if reader.CONTENT in contents]


def recognise(head: bytes, content: str) -> str | None:
    """The name of the reader that recognises the first bytes, or None.

    Several readers may recognise the same bytes, so those of the wanted content come first.
    """
    if is_foreign(head):
        return None
    wanted = readers_of(content)
    names = [*wanted, *(name for name in READERS if name not in wanted)]
    return next((name for name in names if READERS[name].recognises(head)), None)


def dialect_of(readers: set[str], source: str) -> str:
    """The dialect of histories of some formats. Raises InputError if they cannot be judged together."""
    of_transactions = sorted(name for name in readers if name in readers_of(TRANSACTIONS))
    if of_transactions and len(readers) > 1:
        found = f"histories of {' and '.join(sorted(readers))}"
        raise InputError(source, found, f"{of_transactions[0]} alone", "judge the files one by one")
    return of_transactions[0] if of_transactions else "jepsen" if "jepsen" in readers else "native"
