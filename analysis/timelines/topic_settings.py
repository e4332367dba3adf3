"""The settings of a topic that the metadata log records, or else the brokers' own logs, with their times."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Literal

from .changes import Deletion, Setting
from .facts import SECOND, Fact, dated
from .timeline import Builder

_NEXT_SETTING = re.compile(r", ?(?=[\w.]+ -> )")  # a value may have commas
RETENTION: tuple[tuple[str, Literal["age", "size"]], ...] = (("retention.ms", "age"), ("retention.bytes", "size"))


def add_setting(builder: Builder, row: dict[str, Any]) -> None:
    """Adds a value of a setting of the topic, from a row of METADATA with its time `at` (ns).

    One that was set after the topic had been created was the brokers' default before, so it is not its configuration.
    """
    name, value, time = row["key"], "" if row["value"] is None else str(row["value"]).lower(), row["at"]
    created = [fact.when for fact in dated(builder.topic_changes) if fact.kind == "topic-created"]
    if time is None or not created or time <= max(created) + SECOND:
        builder.config.setdefault(name, row["value"])
    _add(builder, name, value, time, source=row["file"], byte=row["byte"])


def add_logged_settings(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """Adds the settings of the topic that a broker's line changes. The line has all that differ from the defaults.

    Each broker logs each change, some of them late or with another clock, so the first line of a change dates it.
    """
    topic, broker = builder.replica_logs.topic, row["broker"]
    if row["topic"] != topic:
        return
    pairs = [pair.partition(" -> ") for pair in _NEXT_SETTING.split(str(fields["config"]))]
    found = {name.strip(): value.lower() for name, arrow, value in pairs if arrow}
    for name in [*found, *(name for name in builder.logged_settings if name not in found)]:
        known = str(builder.config.get(name, "")).lower()
        values, value = builder.logged_settings.setdefault(name, [known]), found.get(name, "")
        position = builder.logged_positions.get((broker, name), 0)
        with suppress(ValueError):
            builder.logged_positions[broker, name] = values.index(value, position)
            continue
        values.append(value)
        builder.logged_positions[broker, name] = len(values) - 1
        _add(builder, name, value, builder.at(row["time"], broker), source=row["file"], line=row["line"], broker=broker)


def _add(builder: Builder, name: str, value: str, time: int | None, **origin: Any) -> None:
    """Adds a value of a setting of the topic, from a time (ns) on; `origin`: where it stands, as fields of a Fact."""
    message = f"{name} of topic {builder.replica_logs.topic} was {f'set to {value}' if value else 'removed'}"
    builder.settings.append(Setting(Fact(message, "setting", time, **origin), name, value))
    if re.fullmatch(r"[0-9]{1,18}", value):  # -1 permits no deletion
        builder.deletions += [Deletion(kind, int(value)) for setting, kind in RETENTION if setting == name]
