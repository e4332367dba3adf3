"""Changes of the active controller, from the controllers' own logs: without one no partition gets a new leader."""

from __future__ import annotations

from typing import Any

from .facts import Fact
from .timeline import Builder


def add_active_controller(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """Adds that a node became the active controller, by its own line."""
    node, epoch = row["subject"] or row["broker"], fields.get("controller_epoch")
    message = f"node {node} became the active controller" + ("" if epoch is None else f" in controller epoch {epoch}")
    time = builder.at(row["time"], row["broker"])
    builder.controllers.append(Fact(message, "controller", time, row["file"], row["line"], broker=node))
