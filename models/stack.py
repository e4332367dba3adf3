"""A stack, last in first out: push, pop; initially empty."""

from __future__ import annotations

from .buffers import buffer_model

STACK = buffer_model("stack", "push", "pop", takes_last=True)
