"""Which errors leave it open whether a broker wrote a record, whatever a client calls the outcome.

Names are those of Kafka's Errors.java, of its exception classes, and of librdkafka, in one spelling: without package,
case, underscores, and the word exception or error at the end.
"""

from __future__ import annotations

import polars as pl

# A leader that appended and then lost its leadership or its disk answers so to a produce request that still waits.
_AFTER_APPEND = (
    "notleaderforpartition",
    "notleaderorfollower",
    "kafkastorage",
    "notenoughreplicasafterappend",
    "unknownserver",
    "unknown",  # librdkafka's name of error code -1
    "duplicatesequence",
    "duplicatesequencenumber",
)
# The request, or its answer, was on its way when the client gave up.
_UNANSWERED = (
    "requesttimedout",
    "timedout",
    "msgtimedout",
    "timeout",
    "kafkatimeout",
    "batchexpired",
    "expiring",
    "interrupt",
    "network",
    "disconnect",
    "transport",
    "purgequeue",
    "purgeinflight",
)
# What error codes say where a client tells no name.
_TEXTS = (
    "therequesttimedout",
    "requesttimedout",
    "messagetimedout",
    "timedout",
    "theserverdisconnectedbeforearesponsewasreceived",
    "theserverexperiencedanunexpectederror",
    "unexpectedservererror",
    "unknownbrokererror",
    "thisserverisnottheleaderforthattopicpartition",
    "forrequestsintendedonlyfortheleader",
    "notleaderforpartition",
    "diskerrorwhentryingtoaccesslogfile",
    "messagesarewrittentothelogbuttofewerinsyncreplicas",
    "messageswrittentologbuttofewerinsyncreplicas",
    "brokertransportfailure",
)
# Who only passes an error on: the cause stands behind it.
_WRAPPED = r"^(?:(?:[\w$]+\.)*(?:ExecutionException|CompletionException|KafkaException|KafkaError|Broker|Local):\s*)+"


def is_undecided(error: pl.Expr) -> pl.Expr:
    """Whether nobody knows what became of a send with this error (null: none told), by its name or its text."""
    told = error.fill_null("").str.replace(_WRAPPED, "")
    name = _plain(told.str.extract(r"^(?:[\w$]+\.)*(\w+)")).str.replace(r"(?:exception|error)$", "")
    text = _plain(told.str.extract(r"^([^:]*)"))
    by_text = pl.any_horizontal(text.str.starts_with(known) for known in _TEXTS)
    return (name.is_in([*_AFTER_APPEND, *_UNANSWERED]) & ~_is_sentence(told) | by_text).fill_null(False)


def _plain(text: pl.Expr) -> pl.Expr:
    return text.str.to_lowercase().str.replace_all("[^a-z]", "")


def _is_sentence(told: pl.Expr) -> pl.Expr:
    """Whether it begins with a mere word: "Unknown topic" is no UNKNOWN."""
    return told.str.contains(r"^Unknown\s+\w")
