"""Which files may be brokers' logs, by their names: Kafka's own, rotated by log4j or logrotate, or any other.

A name that is not Kafka's own only counts if the content is a broker's (log_prefixes.py).
"""

from __future__ import annotations

import re

_LOGS = "server|controller|state-change|log-cleaner|kafkaServer|kafka"
# server.log.2026-11-20-10 and server.log.1 of log4j; server.log-20261120 of logrotate's dateext; copies by hand.
_ROTATED = r"([.\-_][\d.\-_]+|[.\-_](?:old|bak|orig|prev|previous))?"
BROKER_LOG = re.compile(rf"({_LOGS})(\.log|\.out){_ROTATED}(\.gz)?")
# kafka-0.log: a broker's if its lines have an id. `stdin` is the copy of standard input.
RENAMED_LOG = re.compile(rf"stdin|.+\.(log|out|txt){_ROTATED}(\.gz)?")
# Packed by a tool that is not read.
PACKED_LOG = re.compile(rf"({_LOGS})(\.log|\.out){_ROTATED}\.(zst|xz|bz2|lz4|lzma|Z|zip|7z)")
# Of a broker's folder, for example.
ARCHIVE = re.compile(r".+\.(tar|tgz|zip|tar\.(gz|zst|xz|bz2))")
# Endings and names of files that are no logs: histories, results, settings, indexes of segments, hidden files.
_OTHER = re.compile(
    r"\..*|history.*|run\.json|truth\.json"
    r"|.+\.(edn|parquet|csv|index|timeindex|txnindex|snapshot|checkpoint|lock|metadata|properties|toml|ya?ml"
    r"|conf|cfg|xml|html?|md|py|sh|png|svg|pdf|jar|so|jsa|hprof|jfr|pem|jks|p12|tar|tgz|zip|7z|xz|bz2|zst|lz4|deleted"
    r"|cleaned|swap|new|tmp)"
    r"|.*-checkpoint|cleaner-offset-.*|leader-epoch-.*"
)


def may_be_log(name: str) -> bool:
    """Whether a file of this name is worth a look at its first lines: `messages`, `kafka-0.previous`, `pod-logs`."""
    return bool(RENAMED_LOG.fullmatch(name)) or not _OTHER.fullmatch(name)
