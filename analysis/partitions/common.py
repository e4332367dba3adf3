"""What all units of judging share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ...histories.settings import Settings


class Common(NamedTuple):
    """The settings and input that all units share: context, sends without a known partition, and evidence of brokers
    that belongs to no partition."""

    settings: Settings
    context: pl.DataFrame
    unplaced: pl.DataFrame
    shared: Mapping[str, pl.DataFrame]
