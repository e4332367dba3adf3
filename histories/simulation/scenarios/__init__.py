"""The catalogue of scenarios: every scenario file in this folder."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ....models.replication.scenario import Scenario
from ...errors import unknown_name
from ..scenario_file import parse, read

THEMES = (
    "Replication and the high watermark",
    "Truncation and leader epochs",
    "Elections and durability",
    "Controllers",
    "Placement and reassignment",
    "Groups",
    "Consumers and their offsets",
    "Transactions",
    "Storage",
    "Producers and the network",
)


def by_theme() -> dict[str, list[Scenario]]:
    """All scenarios by theme, in the order of THEMES; those of a theme in alphabetical order."""
    scenarios = [load(name) for name in names()]
    return {theme: [scenario for scenario in scenarios if scenario.theme == theme] for theme in THEMES}


def names() -> list[str]:
    """The names of all scenarios, in alphabetical order."""
    return sorted(f.name[: -len(".toml")] for f in files(__package__).iterdir() if f.name.endswith(".toml"))


def load(name: str) -> Scenario:
    """The scenario of this name. Raises UsageError if there is none."""
    if name not in names():
        raise unknown_name("scenario", name, names(), "`logjudge scenarios`")
    return parse((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")


def load_or_read(name: str) -> Scenario:
    """The scenario of this name in the catalogue, or that of a file. Raises UsageError and InputError."""
    is_file = name not in names() and (name.endswith(".toml") or Path(name).exists())
    return read(Path(name)) if is_file else load(name)
