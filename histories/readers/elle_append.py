"""Reads list-append histories, as Elle does: transactions of [:append key element] and [:r key [elements]].

    {:index 3, :time 2720, :type :ok, :process 0, :f :txn, :value [[:append 5 1] [:r 5 [1]]]}

Source: elle/list_append.clj of github.com/jepsen-io/elle.
"""

from __future__ import annotations

import re
from typing import Any

from .contents import TRANSACTIONS
from .edn import INT, KEY, dumps, vector_of
from .lines import MalformedError
from .transaction_lines import SEPARATOR, Format, Transactions, begins_as_edn, parse_transactions

NAME = "elle-append"
CONTENT = TRANSACTIONS
_APPEND = re.compile(rb"\[\s*:append[\s,]")
_STEP = rf"\[:(?:append {KEY} {INT}|r {KEY}(?: (?:nil|{vector_of(INT)}))?)\]"


def recognises(head: bytes) -> bool:
    """Whether the first bytes have an append."""
    return begins_as_edn(head) and _APPEND.search(head) is not None


def _list_text(value: Any) -> str:
    if not isinstance(value, tuple):
        raise MalformedError(f"found a read of {dumps(value)[:60]}, expected a vector of elements or nil")
    return "".join(dumps(element) + SEPARATOR for element in value)


def parse(blob: bytes, source: str = "") -> Transactions:  # noqa: ARG001
    """The events of complete lines."""
    return parse_transactions(blob, Format("append", _STEP, _list_text))
