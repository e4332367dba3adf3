"""Scenarios on real clusters: a TOML file each. Those of the catalogue state the verdict and causes that they must get.

docs/recording.md explains every key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ...errors import UsageError, unknown_name
from ..session import Load
from ..workloads import WORKLOADS

FOLDER = Path(__file__).parent
CLUSTER = ("kafka", "brokers", "controllers", "settings", "broker_settings", "features")  # keys of the table [cluster]
# Roles of brokers for the first partition, and leaders of the coordinators' logs. A step may also give a number.
ROLES = ("leader", "followers", "others", "coordinator", "transaction-coordinator")
UNTIL = ("in-sync", "leader-alone", "leader-changed", "led")
NODES: dict[str, type | tuple[type, ...]] = {"nodes": list}
# The actions of steps, and their keys besides `do`.
STEPS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "wait": {"seconds": (int, float), "until": str},
    "look": {},
    "kill": NODES,
    "stop": NODES,
    "start": NODES,
    "pause": NODES,
    "resume": NODES,
    "isolate": NODES | {"clients": bool},
    "lose-acks": NODES,
    "fill-disk": NODES | {"bytes": int},
    "heal": {},
    "truncate": NODES | {"records": int, "partition": int},
    "backup": NODES,
    "restore": NODES,
    "snapshot": {"name": str},
    "delete-records": {"share": (int, float)},
    "add-partitions": {"partitions": int, "known_after_seconds": (int, float)},
}
OPTIONAL = {"clients", "partition", "seconds", "until"}


@dataclass(frozen=True)
class LabScenario:
    """A cluster, a workload, the faults, and the verdict that logjudge must reach."""

    name: str
    workload: str = "append-and-read"
    title: str = ""
    story: str = ""
    verdict: str = ""
    rules: tuple[str, ...] = ()  # that are breached, at least
    causes: tuple[str, ...] = ()
    kafka: str = "4.1"
    brokers: int = 3
    controllers: int = 1
    settings: dict[str, Any] = field(default_factory=dict)  # of every broker
    broker_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)
    topic: dict[str, str] = field(default_factory=dict)
    producer: dict[str, Any] = field(default_factory=dict)
    consumer: dict[str, Any] = field(default_factory=dict)
    steps: tuple[dict[str, Any], ...] = ()


def names() -> list[str]:
    """The names of all scenarios of the catalogue."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> LabScenario:
    """A scenario by name, or by the path of a TOML file. Raises UsageError."""
    if name.endswith(".toml"):
        return _parse(Path(name))
    if name not in names():
        raise unknown_name("scenario", name, names(), "`logjudge record --lab list`")
    return _parse(FOLDER / f"{name}.toml")


def _parse(path: Path) -> LabScenario:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; expected the TOML file of a scenario") from error
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    steps = content.pop("step", [])
    if not isinstance(steps, list):
        raise UsageError(f"{path}: found [step], expected [[step]], once for each step")
    for number, step in enumerate(steps, 1):
        _check_step(f"{path}: step {number}", step)
    cluster = content.pop("cluster", {})
    content = {"name": path.stem, **content, **_check_keys(f"{path}: [cluster]", cluster, CLUSTER)}
    _check_keys(str(path), content, [field.name for field in fields(LabScenario) if field.name != "steps"])
    for key, value in content.items():
        expected = type(getattr(_DEFAULTS, key))
        if not isinstance(value, list if expected is tuple else expected):
            raise UsageError(f"{path}: found {key} = {value!r}, expected a {_SHAPES[expected]}")
    _check_keys(f"{path}: [load]", content.get("load", {}), [field.name for field in fields(Load)])
    workload = content.get("workload", _DEFAULTS.workload)
    if workload not in WORKLOADS:
        raise UsageError(f"{path}: {unknown_name('workload', workload, WORKLOADS)}")
    lists = {key: tuple(value) for key, value in content.items() if isinstance(value, list)}
    return LabScenario(**{**content, **lists}, steps=tuple(steps))


def _check_step(where: str, step: Any) -> None:
    action = step.get("do") if isinstance(step, dict) else None
    if not isinstance(action, str) or action not in STEPS:
        raise UsageError(f"{where}: found do = {action!r}, expected one of {', '.join(STEPS)}")
    keys = STEPS[action]
    _check_keys(f"{where} ({action})", step, ["do", *keys])
    for key, kind in keys.items():
        if key not in step and key not in OPTIONAL:
            raise UsageError(f"{where} ({action}): {key} is missing")
        if key in step and not isinstance(step[key], kind):
            shape = _SHAPES[kind[0] if isinstance(kind, tuple) else kind]
            raise UsageError(f"{where} ({action}): found {key} = {step[key]!r}, expected a {shape}")
    for node in step.get("nodes", ()):
        if node not in ROLES and not (isinstance(node, str) and node.isdecimal()):
            raise UsageError(
                f"{where} ({action}): found the node {node!r}, expected one of {', '.join(ROLES)}, or a"
                ' broker such as "1"'
            )
    if action == "wait" and ("seconds" in step) == ("until" in step):
        raise UsageError(f"{where} (wait): expected either seconds or until")
    if step.get("until", UNTIL[0]) not in UNTIL:
        raise UsageError(f"{where} (wait): found until = {step['until']!r}, expected one of {', '.join(UNTIL)}")


def _check_keys(where: str, content: Any, known: Sequence[str]) -> dict[str, Any]:
    """The content of a table. Raises UsageError for a key that nothing reads."""
    if not isinstance(content, dict):
        raise UsageError(f"{where}: found {content!r}, expected a table")
    for key in content:
        if key not in known:
            raise UsageError(f"{where}: {unknown_name('key', key, known)}")
    return content


_DEFAULTS = LabScenario("")
_SHAPES = {str: "string", int: "whole number", dict: "table", list: "list", tuple: "list", bool: "boolean"}
