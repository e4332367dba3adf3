"""The catalogue: one scenario file a way to lose data, or not to. The folder is the registry."""

from __future__ import annotations

from importlib.resources import files

from ....models.replication.scenario import Scenario
from ...errors import UsageError, did_you_mean
from ..scenario_file import parse


def names() -> list[str]:
    """All scenarios, in alphabetical order."""
    return sorted(f.name[: -len(".toml")] for f in files(__package__).iterdir() if f.name.endswith(".toml"))


def load(name: str) -> Scenario:
    """A scenario of the catalogue; raises UsageError if there is none of this name."""
    if name not in names():
        raise UsageError(f"no scenario {name!r}; known are {', '.join(names())}{did_you_mean(name, names())}")
    return parse((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")
