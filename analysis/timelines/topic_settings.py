"""The settings of a topic that the metadata log records, with their times."""

from __future__ import annotations

import re
from typing import Any, Literal

from .facts import Fact
from .timeline import Builder, Deletion, Setting

RETENTION: tuple[tuple[str, Literal["age", "size"]], ...] = (("retention.ms", "age"), ("retention.bytes", "size"))


def add_setting(builder: Builder, row: dict[str, Any], time: int | None) -> None:
    """Adds a value of a setting of the topic, from a row of METADATA."""
    name, value = row["key"], "" if row["value"] is None else str(row["value"]).lower()
    builder.config.setdefault(name, row["value"])
    message = f"{name} of topic {row['topic']} was {f'set to {value}' if value else 'removed'}"
    fact = Fact(message, "setting", time, source=row["file"], byte=row["byte"])
    builder.settings.append(Setting(name, value, fact))
    builder.deletions += _permitted(name, value)


def _permitted(setting: str, value: str) -> list[Deletion]:
    """The deletions that a topic's setting permits, as it is or was during the run."""
    if not re.fullmatch(r"[0-9]{1,18}", value):  # -1 permits none
        return []
    return [Deletion(kind, int(value)) for name, kind in RETENTION if name == setting]
