"""Scenarios on real clusters: a TOML file each, with the verdict and the causes that it must get."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UsageError, did_you_mean

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class LabScenario:
    """A cluster, a workload, the faults, and what logjudge must say of the run."""

    name: str
    title: str
    story: str
    workload: str
    verdict: str
    rules: tuple[str, ...] = ()  # that are breached, at least
    causes: tuple[str, ...] = ()
    kafka: str = "4.1"
    brokers: int = 3
    settings: dict[str, Any] = field(default_factory=dict)  # of every broker
    broker_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)
    topic: dict[str, str] = field(default_factory=dict)
    producer: dict[str, Any] = field(default_factory=dict)
    consumer: dict[str, Any] = field(default_factory=dict)
    steps: tuple[dict[str, Any], ...] = ()
    is_short: bool = False  # the ordinary tests run it where Kafka's jars are at hand


def names() -> list[str]:
    """The names of all scenarios."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> LabScenario:
    """A scenario by name. Raises UsageError."""
    if name not in names():
        raise UsageError(f"found no scenario {name}, expected one of {', '.join(names())}{did_you_mean(name, names())}")
    content = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    cluster = content.pop("cluster", {})
    tuples: dict[str, Any] = {key: tuple(content.pop(key)) for key in ("rules", "causes") if key in content}
    return LabScenario(name=name, steps=tuple(content.pop("step", ())), **tuples, **cluster, **content)
