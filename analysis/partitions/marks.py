"""Expressions that rules, figures and screening share: the meanings of the rows of `marks` (histories/tables.py)."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

_KIND, _HAS_OFFSET = pl.col("kind"), pl.col("offset").is_not_null()
_IS_OK = pl.col("outcome") == "ok"

IS_COMMIT = (_KIND == "commit") & _IS_OK & _HAS_OFFSET  # that certainly took effect
IS_LOG_END = (_KIND == "end_offsets") & _IS_OK & _HAS_OFFSET
IS_POSITION = _KIND.is_in(["assign", "seek"]) & _IS_OK & _HAS_OFFSET  # where a consumer reads on
IS_HANDLED = (_KIND == "handle") & (pl.col("outcome") != "fail")
IS_OF_GROUP = (_KIND == "commit") | (_KIND.is_in(["assign", "revoke"]) & pl.col("group"))
# A group's committed offset: from a commit, or assigned by the group, which shows an earlier commit.
IS_COMMITTED = IS_COMMIT | ((_KIND == "assign") & pl.col("group") & _IS_OK & _HAS_OFFSET)
IS_MOVE = _KIND.is_in(["assign", "seek", "revoke"]) & (pl.col("outcome") != "fail")  # it sets or clears a position
# It names no partition, so all are revoked (also in the context).
IS_REVOCATION_OF_ALL = (_KIND == "revoke") & (pl.col("detail").fill_null("0") == "0")
# The position after a move; null: not known, as after a revocation, or a seek without a known outcome.
POSITION = pl.when((_KIND != "revoke") & _IS_OK).then("offset")
COUNTS = (
    ((_KIND == "commit") | pl.col("group")).sum().alias("groups"),
    (_KIND == "commit").sum().alias("commits"),
    pl.col("group_generation").is_not_null().sum().alias("generations"),
)


def is_final_read(processes: Collection[str], last_heal: int) -> pl.Expr:
    """Selects the reads of these processes after the last fault or heal (ns)."""
    return pl.col("process").is_in(processes) & (pl.col("completed") >= last_heal)
