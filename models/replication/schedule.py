"""Schedules of faults: drawn from a seed, or given; a drawn one says what a given one could.

Some names stand for patterns rather than single faults: `unclean` kills followers, then the leader, and
brings the followers back first; `rolling` shuts brokers down one after the other; `blackout` takes the
power from all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from .config import MS, SECOND, Config
from .faults import FAULTS, Fault


class Draw:
    """Small draws from one generator. Only `random()` is used: its sequence is the same in every Python."""

    __slots__ = ("_rng",)

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)

    def below(self, limit: int) -> int:
        return int(self._rng.random() * limit)

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def some(self, items: Sequence[int], count: int) -> tuple[int, ...]:
        """`count` of the items, in order."""
        left = list(items)
        while len(left) > count:
            del left[self.below(len(left))]
        return tuple(left)


def _brokers(config: Config) -> tuple[int, ...]:
    return tuple(range(1, config.brokers + 1))


def _single(kind: str, most: int, low: int, high: int, amounts: tuple[int, int] = (0, 0)) -> Pattern:
    """One fault of 1 to `most` brokers, for `low` to `high` milliseconds."""

    def draw(rng: Draw, config: Config, at: int) -> list[Fault]:
        nodes = rng.some(_brokers(config), rng.between(1, min(most, config.brokers)))
        amount = rng.between(*amounts) if amounts[1] else 0
        return [Fault(at, kind, nodes, rng.between(low, high) * MS, amount)]

    return draw


def _nodeless(kind: str, low: int, high: int, amounts: tuple[int, int] = (0, 0)) -> Pattern:
    def draw(rng: Draw, config: Config, at: int) -> list[Fault]:  # noqa: ARG001
        amount = rng.between(*amounts) if amounts[1] else 0
        return [Fault(at, kind, (), rng.between(low, high) * MS, amount)]

    return draw


def _one_way(rng: Draw, config: Config, at: int) -> list[Fault]:
    pair = rng.some(_brokers(config), 2)
    source, target = pair if rng.chance(0.5) else pair[::-1]
    return [Fault(at, "one-way", (source,), rng.between(500, 5000) * MS, 0, (target,))]


def _unclean(rng: Draw, config: Config, at: int) -> list[Fault]:
    """Followers die, the ISR shrinks to the leader, it dies too, and the followers come back first."""
    leader = rng.between(1, config.brokers)
    others = tuple(b for b in _brokers(config) if b != leader)
    alone = config.session_timeout + rng.between(500, 3000) * MS
    dark = rng.between(200, 1500) * MS
    back = config.session_timeout + rng.between(500, 3000) * MS
    return [
        Fault(at, "crash", others, alone + dark),
        Fault(at + alone, "crash", (leader,), dark + back),
    ]


def _rolling(rng: Draw, config: Config, at: int) -> list[Fault]:
    pause = rng.between(1000, 3000) * MS
    return [Fault(at + i * 2 * pause, "shutdown", (b,), pause) for i, b in enumerate(_brokers(config))]


def _blackout(rng: Draw, config: Config, at: int) -> list[Fault]:
    """Everything loses power at once, and comes back broker by broker."""
    first = rng.between(300, 2000) * MS
    order = rng.some(_brokers(config), config.brokers)
    turn = rng.below(config.brokers)
    return [
        Fault(at, "power-loss", (order[(i + turn) % len(order)],), first + i * rng.between(0, 3000) * MS)
        for i in range(len(order))
    ]


def _bounce(rng: Draw, config: Config, at: int) -> list[Fault]:
    """A broker restarts too quickly to be missed, and soon after another dies."""
    pair = rng.some(_brokers(config), 2)
    first, second = pair if rng.chance(0.5) else pair[::-1]
    back = rng.between(100, 600) * MS
    after = back + config.recovery_time + rng.between(-100, 100) * MS
    return [
        Fault(at, "crash", (first,), back),
        Fault(at + after, "crash", (second,), config.session_timeout + rng.between(500, 4000) * MS),
    ]


def _controller_pause(rng: Draw, config: Config, at: int) -> list[Fault]:
    """A controller is paused past its session while brokers die, and wakes as a zombie."""
    lasts = config.controller_timeout + rng.between(200, 4000) * MS
    return [
        Fault(at, "controller-pause", (), lasts),
        *(
            Fault(at + rng.between(0, 3000) * MS, "crash", (node,), rng.between(500, 6000) * MS)
            for node in rng.some(_brokers(config), 2)
        ),
    ]


Pattern = Callable[[Draw, Config, int], list[Fault]]

PATTERNS: dict[str, Pattern] = {
    "crash": _single("crash", 2, 100, 8000),
    "power-loss": _single("power-loss", 1, 100, 8000),
    "shutdown": _single("shutdown", 1, 500, 4000),
    "pause": _single("pause", 2, 200, 8000),
    "slow-disk": _single("slow-disk", 1, 1000, 6000, (20, 900)),
    "disk-full": _single("disk-full", 2, 1000, 6000),
    "partition": _single("partition", 1, 500, 8000),
    "one-way": _one_way,
    "delay": _single("delay", 1, 500, 5000, (50, 800)),
    "loss": _nodeless("loss", 500, 4000, (5, 100)),
    "duplication": _nodeless("duplication", 500, 4000, (5, 200)),
    "clock-skew": _single("clock-skew", 1, 1000, 6000, (500, 20000)),
    "controller-crash": _nodeless("controller-crash", 1000, 6000),
    "controller-pause": _controller_pause,
    "preferred-election": _nodeless("preferred-election", 0, 0),
    "unclean": _unclean,
    "rolling": _rolling,
    "blackout": _blackout,
    "bounce": _bounce,
}


def known(kind: str) -> bool:
    return kind in PATTERNS or kind in FAULTS


def draw(seed: int, config: Config, kinds: Sequence[str], count: int, begin: int, span: int) -> list[Fault]:
    """`count` patterns of these kinds, spread over `span` microseconds from `begin` on, in order of time."""
    rng = Draw(seed)
    found: list[Fault] = []
    for _ in range(count):
        kind = kinds[rng.below(len(kinds))]
        found.extend(PATTERNS[kind](rng, config, begin + rng.below(span)))
    return sorted(found, key=lambda fault: fault.at)


def quick(config: Config) -> Config:
    """The same configuration with short timeouts, so that a search sees many failovers in a few seconds."""
    from dataclasses import replace

    return replace(
        config,
        lag_time_max=2 * SECOND,
        session_timeout=1500 * MS,
        heartbeat=400 * MS,
        controller_timeout=1 * SECOND,
        socket_timeout=1 * SECOND,
        fetch_backoff=200 * MS,
        request_timeout=2 * SECOND,
        delivery_timeout=20 * SECOND,
        hw_checkpoint=1 * SECOND,
        imbalance_check=6 * SECOND,
        recovery_time=50 * MS,
        settle=3 * SECOND,
        batch_records=4,
        ops=60,
        interval=150 * MS,
        horizon=300 * SECOND,
    )
