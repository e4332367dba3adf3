"""A queue, first in first out: enqueue, dequeue; initially empty."""

from __future__ import annotations

from .buffers import buffer_model

QUEUE = buffer_model("queue", "enqueue", "dequeue")
