"""Random schedules of faults, drawn from a seed.

Some names are patterns of several faults: `unclean` kills followers, then the leader, and restarts the followers
first; `rolling` shuts brokers down one after the other; `blackout` cuts the power of all; `rolling-upgrade` replaces
classic members by those of KIP-848's protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from ..replication.config import MS, SECOND, Config, ConfigError
from ..replication.faults.fault import Fault


class Draw:
    """Small draws from one generator. Only `random()` is used: its sequence is the same in every Python."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)

    def below(self, limit: int) -> int:
        """A number from 0 up to `limit`, not included."""
        return int(self._rng.random() * limit)

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def time(self, low: int, high: int) -> int:
        """A time (us) of `low` to `high` whole milliseconds."""
        return self.between(low, high) * MS

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._rng.random() < probability

    def some(self, items: Sequence[int], count: int) -> tuple[int, ...]:
        """`count` of the items, in order."""
        left = list(items)
        while len(left) > count:
            del left[self.below(len(left))]
        return tuple(left)


Pattern = Callable[[Draw, Config, int], list[Fault]]  # draws faults that begin at about a time (us)

SESSION = 1500 * MS  # the patterns' times are for this broker.session.timeout.ms, and scale with it


def _scaled_time(rng: Draw, config: Config, low: int, high: int) -> int:
    """A time between `low` and `high` milliseconds, in proportion to the session timeout."""
    return rng.time(low, high) * max(config.session_timeout, SESSION) // SESSION


def _brokers(config: Config) -> tuple[int, ...]:
    return tuple(range(1, config.brokers + 1))


def _two_brokers(rng: Draw, config: Config) -> tuple[int, ...]:
    """Two brokers in any order."""
    pair = rng.some(_brokers(config), 2)
    return pair if rng.chance(0.5) else pair[::-1]


def _single(kind: str, most: int, low: int, high: int, amounts: tuple[int, int] = (0, 0)) -> Pattern:
    """One fault of 1 to `most` brokers (0: of none), for `low` to `high` milliseconds."""

    def draw(rng: Draw, config: Config, at: int) -> list[Fault]:
        nodes = rng.some(_brokers(config), rng.between(1, min(most, config.brokers))) if most else ()
        amount = rng.between(*amounts) if amounts[1] else 0
        return [Fault(at, kind, nodes, _scaled_time(rng, config, low, high), amount)]

    return draw


def _of_member(kind: str, low: int, high: int) -> Pattern:
    """One fault of a consumer, for `low` to `high` milliseconds."""

    def draw(rng: Draw, config: Config, at: int) -> list[Fault]:
        if not config.consumers:
            raise ConfigError(f"the fault {kind} needs simulation.consumers")
        return [Fault(at, kind, (rng.below(config.consumers),), rng.time(low, high))]

    return draw


def _rolling_upgrade(rng: Draw, config: Config, at: int) -> list[Fault]:
    """Members of KIP-848's protocol, which stand by, replace the classic ones one by one; perhaps some are put back."""
    pairs = list(zip(range(config.classic_members), range(config.classic_members, config.consumers), strict=False))
    if not pairs:
        raise ConfigError("the fault rolling-upgrade needs simulation.classic.members and as many other members")
    if rng.chance(0.5):
        pairs += [(new, old) for old, new in pairs[: rng.between(1, len(pairs))]]
    faults = []
    for pair in pairs:
        faults.append(Fault(at, "consumer-replace", pair, rng.time(50, 2000)))
        at += rng.time(100, 2500)
    return faults


def _one_way(rng: Draw, config: Config, at: int) -> list[Fault]:
    source, target = _two_brokers(rng, config)
    return [Fault(at, "one-way", (source,), rng.time(500, 5000), 0, (target,))]


def _unclean(rng: Draw, config: Config, at: int) -> list[Fault]:
    """Followers die, the ISR shrinks to the leader, the leader dies too, and the followers come back first."""
    leader = rng.between(1, config.brokers)
    others = tuple(b for b in _brokers(config) if b != leader)
    alone = config.session_timeout + rng.time(500, 3000)
    dark = rng.time(200, 1500)
    back = config.session_timeout + rng.time(500, 3000)
    return [Fault(at, "crash", others, alone + dark), Fault(at + alone, "crash", (leader,), dark + back)]


def _rolling_restarts(rng: Draw, config: Config, at: int) -> list[Fault]:
    pause = rng.time(1000, 3000)
    return [Fault(at + i * 2 * pause, "shutdown", (b,), pause) for i, b in enumerate(_brokers(config))]


def _blackout(rng: Draw, config: Config, at: int) -> list[Fault]:
    """All brokers lose power at once, and come back one by one."""
    first = rng.time(300, 2000)
    order = _brokers(config)
    shift = rng.below(config.brokers)
    return [
        Fault(at, "power-loss", (broker,), first + i * rng.time(0, 3000))
        for i, broker in enumerate(order[shift:] + order[:shift])
    ]


def _unseen_restart(rng: Draw, config: Config, at: int, node: int) -> tuple[list[Fault], int]:
    """A broker restart that no controller notices, and about when the next controller takes over.

    The controller dies before the broker's session ends.
    """
    session, vacant = config.session_timeout, config.controller_timeout
    dies = at + max(0, session - vacant) + rng.time(-200, 200)
    return [
        Fault(at, "crash", (node,), rng.time(100, 600)),
        Fault(max(at, dies), "controller-crash", (), vacant + rng.time(500, 2000)),
    ], max(at, dies) + vacant


def _bounce(rng: Draw, config: Config, at: int) -> list[Fault]:
    """No controller notices a broker's restart, and another broker dies before the first follows a leader."""
    first, second = _two_brokers(rng, config)
    faults, takeover = _unseen_restart(rng, config, at, first)
    dies = max(at, takeover - rng.time(0, config.session_timeout // MS))
    return [*faults, Fault(dies, "crash", (second,), config.session_timeout + rng.time(500, 4000))]


def _controller_pause(rng: Draw, config: Config, at: int) -> list[Fault]:
    """A controller is paused past its session while brokers die, and resumes as a zombie."""
    lasts = config.controller_timeout + rng.time(200, 4000)
    return [
        Fault(at, "controller-pause", (), lasts),
        *(
            Fault(at + rng.time(0, 3000), "crash", (node,), rng.time(500, 6000))
            for node in rng.some(_brokers(config), 2)
        ),
    ]


def _handover(rng: Draw, config: Config, at: int) -> list[Fault]:
    """Leadership is handed over while a follower catches up, and both the old and the new leader die.

    It is KAFKA-7128's window, in which the new leader's high watermark lags.
    """
    first, second, behind = 1, 2, config.brokers
    away = config.lag_time_max + config.session_timeout + rng.time(500, 1500)
    back = at + config.session_timeout + away + config.recovery_time
    given = back + rng.time(0, 400)
    dead = config.session_timeout + rng.time(2000, 4000)
    return [
        # The preferred leader restarts cleanly, so that the second one leads and it can be preferred again.
        Fault(at, "shutdown", (first,), 500 * MS),
        Fault(at + config.session_timeout, "crash", (behind,), away),
        Fault(given, "preferred-election"),
        Fault(given + rng.time(0, 60), "crash", (second,), dead),
        Fault(given + rng.time(50, 500), "crash", (first,), dead + rng.time(500, 2000)),
    ]


def _lagging_mark(rng: Draw, config: Config, at: int) -> list[Fault]:
    """KAFKA-7128 with four brokers: a new leader restarted just before, so its high watermark is an old checkpoint.

    A follower of the ISR is paused, so the high watermark stays there, and a third broker far behind may join.
    """
    session = config.session_timeout
    away = session + config.lag_time_max + rng.time(200, 1000)
    back = at + away + config.recovery_time + rng.time(100, 1500)
    restart, lead = _unseen_restart(rng, config, back, 2)
    late = 10 * SECOND
    return [
        Fault(at, "crash", (3,), away),
        Fault(at + away, "delay", (3,), late, rng.between(50, 150)),
        *restart,
        Fault(back, "crash", (1,), late),
        Fault(lead - rng.time(200, 900), "pause", (4,), 3 * session + rng.time(0, 1000)),
        Fault(lead + rng.time(400, 1400), "crash", (2,), late - 4 * SECOND),
    ]


def _reassignment(rng: Draw, config: Config, at: int) -> list[Fault]:
    """A partition moves to other brokers, perhaps to others again or back, and its old or new brokers may die."""
    partition, brokers = rng.below(config.partitions), _brokers(config)
    faults: list[Fault] = []
    for _ in range(rng.between(1, 2)):
        chosen, shift = rng.some(brokers, config.replication_factor), rng.below(config.replication_factor)
        faults.append(Fault(at, "reassignment", chosen[shift:] + chosen[:shift], amount=partition))
        if rng.chance(0.3):
            faults.append(Fault(at + rng.time(0, 3000), "cancel-reassignment", amount=partition))
        if rng.chance(0.6):
            dies = at + rng.time(-1500, 1500)
            node = chosen[rng.below(len(chosen))] if rng.chance(0.5) else rng.between(1, config.brokers)
            faults.append(Fault(dies, "crash", (node,), _scaled_time(rng, config, 100, 8000)))
        at += rng.time(0, 3000)
    return faults


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
    "loss": _single("loss", 0, 500, 4000, (5, 100)),
    "duplication": _single("duplication", 0, 500, 4000, (5, 200)),
    "clock-skew": _single("clock-skew", 1, 1000, 6000, (500, 20000)),
    "controller-crash": _single("controller-crash", 0, 1000, 6000),
    "controller-pause": _controller_pause,
    "consumer-crash": _of_member("consumer-crash", 100, 4000),
    "consumer-shutdown": _of_member("consumer-shutdown", 100, 4000),
    "rolling-upgrade": _rolling_upgrade,
    "consumer-pause": _of_member("consumer-pause", 500, 6000),
    "preferred-election": _single("preferred-election", 0, 0, 0),
    "unclean": _unclean,
    "rolling": _rolling_restarts,
    "blackout": _blackout,
    "bounce": _bounce,
    "handover": _handover,
    "lagging-mark": _lagging_mark,
    "reassignment": _reassignment,
}


# Patterns that need more than one broker.
MIN_BROKERS = {"one-way": 2, "bounce": 2, "unclean": 2, "handover": 3, "lagging-mark": 4}


def required_options(kinds: Sequence[str]) -> dict[str, Any]:
    """The configuration that some of these patterns need; a user's own options take precedence."""
    return {"unclean.leader.election.enable": True} if "unclean" in kinds else {}


def draw(
    seed: int, config: Config, kinds: Sequence[str], count: int, begin: int, span: int, each: bool = False
) -> list[Fault]:
    """`count` patterns of these kinds, spread over `span` microseconds from `begin` on, in order of time.

    With `each`, every kind occurs at least once. Raises ConfigError if a pattern needs more brokers.
    """
    for kind in kinds:
        least = MIN_BROKERS.get(kind, 1)
        if config.brokers < least:
            raise ConfigError(f"the fault {kind} needs at least {least} brokers, and there are {config.brokers}")
    rng = Draw(seed)
    found: list[Fault] = []
    for index in range(max(count, len(kinds)) if each else count):
        kind = kinds[index] if each and index < len(kinds) else kinds[rng.below(len(kinds))]
        found.extend(PATTERNS[kind](rng, config, begin + rng.below(span)))
    return sorted(found, key=lambda fault: fault.at)


# Short timeouts, so that a search sees many failovers in a few simulated seconds.
QUICK: dict[str, int] = {
    "replica.lag.time.max.ms": 2000,
    "broker.session.timeout.ms": 1500,
    "broker.heartbeat.interval.ms": 400,
    "simulation.controller.failover.ms": 1000,
    "replica.socket.timeout.ms": 1000,
    "replica.fetch.backoff.ms": 200,
    "request.timeout.ms": 2000,
    "delivery.timeout.ms": 20000,
    "replica.high.watermark.checkpoint.interval.ms": 1000,
    "leader.imbalance.check.interval.seconds": 6,
    "simulation.recovery.ms": 50,
    "simulation.settle.ms": 3000,
    "simulation.batch.records": 4,
    "simulation.ops": 60,
    "simulation.send.interval.us": 150000,
}
