"""Errors that leave the outcome of a send indeterminate, even where the client recorded `fail`.

The names are those of Kafka's Errors.java, of its exception classes, and of librdkafka. The texts are those of clients
in Java, C, Python, Go, Rust and JavaScript, and of their sockets. Case, underscores and all characters between letters
are ignored, so every spelling matches.
"""

from __future__ import annotations

import polars as pl

# A leader that appended the record, then lost its leadership or its disk, answers the waiting produce request so.
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
# The request or its response was in flight when the client gave up.
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
# The last of several attempts found no leader; the outcome of the earlier ones is not recorded.
_NO_LEADER = ("leadernotavailable", "middleofaleadershipelection", "outofavailablebrokers")
# Names that are plain words: only at the beginning of a text do they name an error.
_AMBIGUOUS_NAMES = ("unknown", "network", "transport", "expiring")
_END_OF_STREAM = r"\beof(?:exception|error)?\b"
# UNKNOWN_SERVER_ERROR, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, NETWORK_EXCEPTION,
# NOT_ENOUGH_REPLICAS_AFTER_APPEND, DUPLICATE_SEQUENCE_NUMBER, KAFKA_STORAGE_ERROR; of librdkafka _PURGE_INFLIGHT,
# _PURGE_QUEUE, _TIMED_OUT, _MSG_TIMED_OUT, _TRANSPORT.
_CODES = ("-1", "5", "6", "7", "13", "20", "46", "56", "-151", "-152", "-185", "-192", "-195")
_CODE = r"^\s*(?:error[\s:=]+)?(-?\d+)\s*$|^\[(?:error )?(-?\d+)\]|\b(?:code|error|err|val)[\"']?\s*[:=]\s*(-?\d+)\b"
# Errors that refuse a record before it is written. The text after them explains them and may contain anything.
_REFUSED = (
    r"\b(?:\w*toolarge|notenoughreplicas(?:exception|error)?\b|\w*(?:authori[sz]ation|authentication|seriali[sz])"
    r"|(?:err)?(?:invalid|unsupported)\w|unknowntopic|corrupt(?:message|record)|outofordersequence|producerfenced"
    r"|bufferexhausted|queuefull|config(?:exception|error)|policyviolation)(?s:.*)"
)
_SETTING = r"\b(?:[a-z]+\.)+ms\b"  # as in "delivery.timeout.ms should be larger"
# Wrappers of an error: its name follows them.
_WRAPPED = r"^(?:(?:[\w$]+\.)*(?:ExecutionException|CompletionException|KafkaException|KafkaError|Broker|Local):\s*)+"


def is_indeterminate(error: pl.Expr) -> pl.Expr:
    """Whether a send with this error may have been written, by the error's name, text or code. Null: no error."""
    text = error.fill_null("").str.replace(_WRAPPED, "")
    name = _letters(text.str.extract(r"^(?:ERR_)?(?:[\w$]+\.)*(\w+)")).str.replace(r"(?:exception|error)$", "")
    words = text.str.to_lowercase().str.replace_all("_", "").str.replace_all(_SETTING, "").str.replace(_REFUSED, "")
    matches = _letters(words).str.contains_any([*_AFTER_APPEND, *_UNANSWERED, *_NO_LEADER])
    matches |= words.str.contains(_END_OF_STREAM)
    code = pl.coalesce(words.str.extract(_CODE, group) for group in (1, 2, 3))
    named = name.is_in(_AMBIGUOUS_NAMES) & ~_is_sentence(text)
    return matches | named.fill_null(False) | code.is_in(_CODES).fill_null(False)


def _letters(text: pl.Expr) -> pl.Expr:
    """The letters of a text, in lower case."""
    return text.str.replace_all("[^A-Za-z]", "").str.to_lowercase()


def _is_sentence(text: pl.Expr) -> pl.Expr:
    """Whether the text begins a sentence: "Unknown topic" is not the error UNKNOWN."""
    return text.str.contains(r"^Unknown\s+\w")
