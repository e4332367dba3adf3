"""A simulated run as a user requests it: a scenario with options, drawn faults, and the bundle that it writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...models.exploration.schedule import PATTERNS, draw, required_options
from ...models.replication.config import SECOND, ConfigError
from ...models.replication.faults.kinds import FAULTS
from ...models.replication.scenario import OWN_VERSION, Scenario
from ..errors import UsageError, did_you_mean
from ..output_folder import SIMULATED, write_whole
from .bundle import WrittenBundle, write_bundle
from .scenarios import load_or_read

DRAWABLE = ", ".join(PATTERNS)
FILE_ONLY = f"in a scenario file (--config): {', '.join(sorted(set(FAULTS) - set(PATTERNS)))}"
OF_READERS = ("consumer-crash", "consumer-seek", "delete-records")  # faults that matter after the last send, too
MIN_LOAD_US = 120 * SECOND  # duration of the load in a run with faults


def simulate_request(
    out: Path, file: str | None, faults: Iterable[str], fault_count: int, **overrides: Any
) -> tuple[WrittenBundle, Scenario]:
    """Simulate a scenario by its name or file, or a new one named as the folder, with drawn faults and `overrides`.

    Returns the bundle and the scenario that was simulated. Raises UsageError.
    """
    base = load_or_read(file) if file is not None else Scenario(out.name, "kip-320", defaults=OWN_VERSION)
    try:
        scenario = _with_drawn_faults(with_overrides(base, **overrides), faults, fault_count)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    return write_simulated(scenario, out), scenario


def with_overrides(
    scenario: Scenario,
    *,
    variant: str | None,
    seed: int | None,
    brokers: int | None = None,
    ops: int | None = None,
    settings: Mapping[str, Any],
) -> Scenario:
    """The scenario with what a user overrides; None keeps what the scenario has. Its story names what is changed."""
    options: dict[str, Any] = dict(scenario.options)
    if brokers is not None:
        options["simulation.brokers"] = brokers
        options.setdefault("default.replication.factor", min(brokers, 3))
    if ops is not None:
        options["simulation.ops"] = ops
    options.update(settings)
    changed = replace(
        scenario, variant=variant or scenario.variant, seed=scenario.seed if seed is None else seed, options=options
    )
    before, after = ({"variant": one.variant, "seed": one.seed, **one.options} for one in (scenario, changed))
    changes = [f"{name}={value}" for name, value in after.items() if name not in before or before[name] != value]
    if not (changes and scenario.story):
        return changed
    note = "title and story are those of the scenario without this change, and may not be true here"
    return replace(changed, story=f"This run has {', '.join(changes)}; {note}.\n\n{scenario.story}")


def _with_drawn_faults(scenario: Scenario, faults: Iterable[str], count: int) -> Scenario:
    """The scenario with faults of these kinds, drawn from its seed for the time of its load. Raises UsageError."""
    kinds = [kind.strip() for kind in faults if kind.strip()]
    if not kinds:
        return scenario
    for kind in kinds:
        if kind not in PATTERNS and kind not in FAULTS:
            known = f"expected one of {DRAWABLE}; only {FILE_ONLY}"
            raise UsageError(f"there is no fault {kind!r}{did_you_mean(kind, FAULTS) or ','} {known}")
        if kind not in PATTERNS:
            raise UsageError(f"the fault {kind!r} cannot be drawn at random; write it into a scenario file")
    options = {**required_options(kinds), **scenario.options}
    scenario = replace(scenario, options=options)
    config = scenario.config()
    least = max(config.interval, MIN_LOAD_US * config.producers // config.ops)
    load = config.ops * options.setdefault("simulation.send.interval.us", least) // config.producers
    found = draw(scenario.seed, config, kinds, count, 2 * SECOND, max(load // 2, SECOND), each=True)
    return scenario.with_faults(tuple(sorted((*scenario.faults, *found), key=lambda fault: fault.at)))


def late_faults(scenario: Scenario, written: WrittenBundle) -> list[str]:
    """A warning for each fault that begins after the last send, so that it cannot concern a record under way."""
    return [
        f"the fault {fault.kind} begins at {fault.at / SECOND:g} s, after the last send at "
        f"{written.last_send / SECOND:.1f} s: raise simulation.ops or simulation.send.interval.us, or move the fault"
        for fault in scenario.faults
        if fault.at > written.last_send and fault.kind not in OF_READERS
    ]


def write_simulated(scenario: Scenario, out: Path) -> WrittenBundle:
    """Simulate into a new folder, or over an earlier bundle of the simulator. Raises UsageError."""
    try:
        return replace(write_whole(out, lambda scratch: write_bundle(scenario, scratch), SIMULATED), folder=out)
    except ConfigError as error:
        raise UsageError(str(error)) from error
