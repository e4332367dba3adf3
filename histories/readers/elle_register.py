"""Reads rw-register histories, as Elle does: transactions of [:w key value] and [:r key value] on registers.

    {:index 3, :time 2720, :type :ok, :process 0, :f :txn, :value [[:w 5 1] [:r 6 nil]]}

Source: elle/rw_register.clj of github.com/jepsen-io/elle.
"""

from __future__ import annotations

import re

from .contents import TRANSACTIONS
from .edn import INT, KEY, dumps
from .transaction_lines import Format, Transactions, begins_as_edn, parse_transactions

NAME = "elle-register"
CONTENT = TRANSACTIONS
_TRANSACTION = re.compile(rb"\[\s*\[\s*:[rw][\s,]")
_STEP = rf"\[:(?:w {KEY} {INT}|r {KEY}(?: (?:nil|{INT}))?)\]"


def recognises(head: bytes) -> bool:
    """Whether the first bytes have a transaction of reads and writes."""
    return begins_as_edn(head) and _TRANSACTION.search(head) is not None


def parse(blob: bytes, source: str = "") -> Transactions:  # noqa: ARG001
    """The events of complete lines."""
    return parse_transactions(blob, Format("w", _STEP, dumps))
