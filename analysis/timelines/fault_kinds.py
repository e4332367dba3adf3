"""The kinds of faults in a history (`fault` in docs/format.md) and what they do. Others last until they are healed."""

from __future__ import annotations

# They end a process at once.
DEATHS = {"kill": "was killed", "power-loss": "lost power"}

# They end a broker's process, not its machine. A full disk makes the broker halt at its next append.
ENDS_OF_PROCESSES = ("kill", "shutdown", "disk-full")

# A restart of the process ends them.
STOPS = (*DEATHS, *("stop", "pause", "shutdown", "disk-full"))

DAMAGES = dict.fromkeys(("corrupt", "bit-flip"), "{} was damaged on {}")

# They change files of a broker at once.
DISK_FAULTS = {
    "truncate": "the tail of {} was cut off on {}",
    **dict.fromkeys(("restore", "restore-backup"), "{} on {} was replaced by an older copy"),
    **DAMAGES,
}

OF_ADMINISTRATORS = {
    "reassignment": "an administrator began to move a partition to {}",
    "cancel-reassignment": "an administrator cancelled a reassignment",
    "init-transactions": "an administrator initialised the transactional ids again, which aborts open transactions",
}

# They have no duration, so no heal follows. A death, too, happens at once, but its broker stays down until a restart.
INSTANT = (
    *("delete-records", "delete-topic", "create-topic", "add-partitions", "preferred-election"),
    *OF_ADMINISTRATORS,
    *DISK_FAULTS,
)
AT_ONCE = (*DEATHS, *INSTANT)  # the others last

# Clearer names of some kinds: without one, `partition` would be taken for a partition of a topic.
_NAMES = {
    "loss": "packet loss",
    "duplication": "packet duplication",
    "delay": "network delay",
    "partition": "network partition",
}


def fault_kind(kind: str) -> str:
    """The name of a kind of fault in sentences."""
    return _NAMES.get(kind, kind)
