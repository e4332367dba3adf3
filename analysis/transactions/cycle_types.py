"""The types of cycles, as Elle has them (elle.txn), and which of them implies which.

    G0                   of ww alone
    G1c                  of ww and wr, at least one wr
    G-single-item        with exactly one rw
    G-nonadjacent-item   with several rw, but no two in a row
    G2-item              with several rw
    …-process            the same with process order
    …-realtime           the same with real-time order

Each implies those below it. Each plain type implies its -process, and that its -realtime. The names of the steps give
the type of a cycle. As in Elle, a step that several orders explain has the first name of ww, wr, rw, process, realtime.
Only transactions on lists and registers have rw dependencies.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, get_args

from .graph import Order

Base = Literal["G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item"]
_BASES: tuple[Base, ...] = get_args(Base)
_ORDERS: tuple[Order, ...] = get_args(Order)
PARTS = {f"{base}-{order}".removesuffix("-"): (base, order) for order in _ORDERS for base in _BASES}
TYPES = tuple(PARTS)


def implies(one: str, other: str) -> bool:
    """Whether a type of cycle implies another one, or is it."""
    (base, order), (weaker, later) = PARTS[one], PARTS[other]
    return _BASES.index(base) <= _BASES.index(weaker) and _ORDERS.index(order) <= _ORDERS.index(later)


def type_of(kinds: list[str]) -> str:
    """The type of a cycle with these steps."""
    number = kinds.count("rw")
    if number > 1:
        is_adjacent = any(one == other == "rw" for one, other in pairwise([*kinds, kinds[0]]))
        base = "G2-item" if is_adjacent else "G-nonadjacent-item"
    elif number:
        base = "G-single-item"
    else:
        base = "G1c" if "wr" in kinds else "G0"
    order = next((name for name in ("realtime", "process") if name in kinds), None)
    return base if order is None else f"{base}-{order}"
