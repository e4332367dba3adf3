"""`logjudge.simulate`: a run of the replication protocol under faults, as a bundle."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .histories.errors import unknown_name
from .histories.simulation.request import simulate_request
from .models.replication.options import OPTIONS
from .models.replication.variants import VARIANTS


def simulate(
    out: str | os.PathLike[str],
    variant: str | None = None,
    *,
    seed: int | None = None,
    brokers: int | None = None,
    ops: int | None = None,
    faults: str | Iterable[str] = (),
    fault_count: int = 3,
    settings: Mapping[str, Any] | None = None,
    scenario: str | os.PathLike[str] | None = None,
) -> Path:
    """Simulate a run and write its bundle into the folder `out`, which is returned.

    The arguments are the options of `logjudge simulate`: `variant` is a protocol (kip-320 unless the scenario file sets
    one), `faults` names the kinds to draw, `settings` has configurations by Kafka's names, `scenario` is the name of
    a scenario of the catalogue, or a scenario file. The same arguments write the same bytes. Raises UsageError.
    """
    if variant is not None and variant not in VARIANTS:
        raise unknown_name("variant", repr(variant), VARIANTS)
    unknown = [name for name in settings or {} if name not in OPTIONS]
    if unknown:
        raise unknown_name("setting", repr(unknown[0]), OPTIONS, "`logjudge simulate --help`")
    kinds = ",".join([faults] if isinstance(faults, str) else faults).split(",")
    file, options = None if scenario is None else os.fspath(scenario), settings or {}
    simulate_request(
        Path(out), file, kinds, fault_count, variant=variant, seed=seed, brokers=brokers, ops=ops, settings=options
    )
    return Path(out)
