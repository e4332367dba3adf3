"""What clients do during a recording: a module each, and one dict."""

from __future__ import annotations

from types import ModuleType

from . import append_and_read

WORKLOADS: dict[str, ModuleType] = {
    "append-and-read": append_and_read,
}
