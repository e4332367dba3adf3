"""The workloads of clients during a recording: a module each, and one dict."""

from __future__ import annotations

from types import ModuleType

from . import append_and_read, consumer_group, delete_records, end_offsets, keyed_compacted, transactions

WORKLOADS: dict[str, ModuleType] = {
    "append-and-read": append_and_read,
    "consumer-group": consumer_group,
    "transactions": transactions,
    "end-offsets": end_offsets,
    "keyed-compacted": keyed_compacted,
    "delete-records": delete_records,
}
