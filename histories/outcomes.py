"""Which errors leave it open whether a broker wrote a record, whatever a client calls the outcome.

Names are those of Kafka's Errors.java, of its exception classes, and of librdkafka; texts those of its clients in Java,
C, Python, Go, Rust and JavaScript, and of the sockets below. They are known in any of their spellings: without case,
underscores, and whatever stands between letters.
"""

from __future__ import annotations

import polars as pl

# A leader that appended and then lost its leadership or its disk answers so to a produce request that still waits.
_AFTER_APPEND = (
    "notleaderforpartition",
    "nottheleaderforthattopicpartition",
    "nottheleaderforsomepartition",
    "notleaderorfollower",
    "forrequestsintendedonlyfortheleader",
    "kafkastorage",
    "diskerrorwhentryingtoaccesslogfile",
    "notenoughreplicasafterappend",
    "writtentothelogbut",
    "writtentologbut",
    "writtentoinsufficientnumberofinsyncreplicas",
    "unknownserver",
    "unknownbrokererror",
    "theserverexperiencedanunexpectederror",
    "unexpectedservererror",
    "unexpectedunknownservererror",
    "duplicatesequence",
)
# The request, or its answer, was on its way when the client gave up.
_UNANSWERED = (
    "timedout",
    "timeout",
    "timelimitintherequest",
    "deadlineexceeded",
    "deadlinehaselapsed",
    "contextcanceled",
    "batchexpired",
    "expiringrecord",
    "interrupt",
    "networkexception",
    "disconnect",
    "brokertransportfailure",
    "brokenpipe",
    "epipe",
    "connectionreset",
    "econnreset",
    "connectionaborted",
    "connectionclosed",
    "closedconnection",
    "closednetworkconnection",
    "sockethangup",
    "clientclosed",
    "clientisclosed",
    "producerclosed",
    "closedforcefully",
    "handledestroyed",
    "purgequeue",
    "purgeinflight",
)
# The last of several attempts found no leader; what became of those before it is not told.
_AT_LAST = ("leadernotavailable", "middleofaleadershipelection", "outofavailablebrokers")
# Names that are mere words: only at the beginning are they an error's.
_WORDS = ("unknown", "network", "transport", "expiring")
_END_OF_STREAM = r"\beof(?:exception|error)?\b"
# UNKNOWN_SERVER_ERROR, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, NETWORK_EXCEPTION,
# NOT_ENOUGH_REPLICAS_AFTER_APPEND, DUPLICATE_SEQUENCE_NUMBER, KAFKA_STORAGE_ERROR; of librdkafka _PURGE_INFLIGHT,
# _PURGE_QUEUE, _TIMED_OUT, _MSG_TIMED_OUT, _TRANSPORT.
_CODES = ("-1", "5", "6", "7", "13", "20", "46", "56", "-151", "-152", "-185", "-192", "-195")
_CODE = r"^\s*(?:error[\s:=]+)?(-?\d+)\s*$|^\[(?:error )?(-?\d+)\]|\b(?:code|error|err|val)[\"']?\s*[:=]\s*(-?\d+)\b"
# What refuses a record before it is written; what stands behind it explains it and may be in any words.
_REFUSED = (
    r"\b(?:\w*toolarge|notenoughreplicas(?:exception|error)?\b|\w*(?:authori[sz]ation|authentication|seriali[sz])"
    r"|(?:err)?(?:invalid|unsupported)\w|unknowntopic|corrupt(?:message|record)|outofordersequence|producerfenced"
    r"|bufferexhausted|queuefull|config(?:exception|error)|policyviolation)(?s:.*)"
)
_SETTING = r"\b(?:[a-z]+\.)+ms\b"  # as in "delivery.timeout.ms should be larger"
# Who only passes an error on: the cause stands behind it.
_WRAPPED = r"^(?:(?:[\w$]+\.)*(?:ExecutionException|CompletionException|KafkaException|KafkaError|Broker|Local):\s*)+"


def is_undecided(error: pl.Expr) -> pl.Expr:
    """Whether nobody knows what became of a send with this error (null: none told), by its name, text or code."""
    told = error.fill_null("").str.replace(_WRAPPED, "")
    name = _plain(told.str.extract(r"^(?:ERR_)?(?:[\w$]+\.)*(\w+)")).str.replace(r"(?:exception|error)$", "")
    words = told.str.to_lowercase().str.replace_all("_", "").str.replace_all(_SETTING, "").str.replace(_REFUSED, "")
    known = _plain(words).str.contains_any([*_AFTER_APPEND, *_UNANSWERED, *_AT_LAST])
    known |= words.str.contains(_END_OF_STREAM)
    code = pl.coalesce(words.str.extract(_CODE, group) for group in (1, 2, 3))
    named = name.is_in(_WORDS) & ~_is_sentence(told)
    return known | named.fill_null(False) | code.is_in(_CODES).fill_null(False)


def _plain(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all("[^A-Za-z]", "").str.to_lowercase()


def _is_sentence(told: pl.Expr) -> pl.Expr:
    """Whether it begins with a mere word: "Unknown topic" is no UNKNOWN."""
    return told.str.contains(r"^Unknown\s+\w")
