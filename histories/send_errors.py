"""The errors of sends: which leave the outcome open, and which prove that nothing was written.

One table for two users. `outcomes.py` reads it to find sends that a history calls failed although their error leaves
the outcome open. `recording/` reads it to choose between `fail` and `info` for an exception. An error that is not in
the table proves nothing: a history's own `fail` then counts, and the recorder writes `info`.

Names are those of Kafka's Errors.java and exception classes, and of librdkafka's rdkafka.h. Texts are those of the
clients in Java, C, Python, Go, Rust and JavaScript, and of their sockets. Names and texts are compared without case
and without anything but letters.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

JAVA = "Kafka, org.apache.kafka.common.protocol.Errors"
PRODUCE = "Kafka, ReplicaManager.appendRecords and DelayedProduce.tryComplete"
CLIENT = "Kafka, org.apache.kafka.clients.producer.KafkaProducer.send"
LIBRDKAFKA = "librdkafka, rdkafka.h: rd_kafka_resp_err_t and rd_kafka_msg_status_t"


class SendError(NamedTuple):
    """One error, or errors that mean the same."""

    name: str
    outcome: Literal["info", "fail"]
    reason: str
    source: str
    texts: tuple[str, ...] = ()  # of info: letters that name it anywhere in an error
    first_words: tuple[str, ...] = ()  # of info: names that are mere words, so that they count at the beginning only
    pattern: str = ""  # a regular expression on the lower-case error without underscores
    # Of fail: names of errors that classify an exception. Empty where an earlier attempt of the same send may have been
    # written, so that the error refuses the last attempt only.
    names: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()


SEND_ERRORS = (
    SendError("NOT_LEADER_OR_FOLLOWER", "info",
        "a leader that appended the record and then lost its leadership returns it to the request that still waits",
        PRODUCE,
        ("notleaderforpartition", "nottheleaderforthattopicpartition", "nottheleaderforsomepartition",
         "notleaderorfollower", "forrequestsintendedonlyfortheleader"), codes=(6,)),
    SendError("KAFKA_STORAGE_ERROR", "info",
        "the disk may have failed after the record was appended", PRODUCE,
        ("kafkastorage", "diskerrorwhentryingtoaccesslogfile"), codes=(56,)),
    SendError("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "info",
        "the leader wrote the record, and too few replicas were in sync to acknowledge it", JAVA,
        ("notenoughreplicasafterappend", "writtentothelogbut", "writtentologbut",
         "writtentoinsufficientnumberofinsyncreplicas"), codes=(20,)),
    SendError("UNKNOWN_SERVER_ERROR", "info",
        "the broker failed at a step that the error does not name", JAVA,
        ("unknownserver", "unknownbrokererror", "theserverexperiencedanunexpectederror", "unexpectedservererror",
         "unexpectedunknownservererror"), first_words=("unknown",), codes=(-1,)),
    SendError("DUPLICATE_SEQUENCE_NUMBER", "info",
        "an earlier attempt of the same batch was written", JAVA, ("duplicatesequence",), codes=(46,)),
    SendError("REQUEST_TIMED_OUT", "info",
        "the record was on its way, or waited for replication, when the client gave up",
        f"{JAVA}; {LIBRDKAFKA} (_MSG_TIMED_OUT, _TIMED_OUT: possibly persisted)",
        ("timedout", "timeout", "timelimitintherequest", "deadlineexceeded", "deadlinehaselapsed", "contextcanceled",
         "batchexpired", "expiringrecord", "interrupt"), first_words=("expiring",), codes=(7, -185, -192)),
    SendError("NETWORK_EXCEPTION", "info",
        "the connection ended before the response came", f"{JAVA}; {LIBRDKAFKA} (_TRANSPORT: possibly persisted)",
        ("networkexception", "disconnect", "brokertransportfailure", "brokenpipe", "epipe", "connectionreset",
         "econnreset", "connectionaborted", "connectionclosed", "closedconnection", "closednetworkconnection",
         "sockethangup"), first_words=("network", "transport"), pattern=r"\beof(?:exception|error)?\b",
        codes=(13, -195)),
    SendError("_PURGE_INFLIGHT, _PURGE_QUEUE", "info",
        "the client dropped a record that it had sent, or that it was about to send again",
        f"{LIBRDKAFKA}; rd_kafka_purge()", ("purgequeue", "purgeinflight"), codes=(-151, -152)),
    SendError("client closed", "info",
        "the client was closed while the record was on its way", f"{CLIENT}; KafkaProducer.close(Duration)",
        ("clientclosed", "clientisclosed", "producerclosed", "closedforcefully", "handledestroyed")),
    SendError("LEADER_NOT_AVAILABLE", "info",
        "the last of several attempts found no leader; the attempts before it may have been written", JAVA,
        ("leadernotavailable", "middleofaleadershipelection", "outofavailablebrokers"), codes=(5,)),
    SendError("MESSAGE_TOO_LARGE", "fail",
        "the client or the leader refuses a record of this size before it is written",
        f"{JAVA}; {LIBRDKAFKA} (MSG_SIZE_TOO_LARGE)", pattern=r"\w*toolarge",
        names=("messagetoolarge", "messagesizetoolarge", "msgsizetoolarge", "recordtoolarge", "recordlisttoolarge",
         "recordbatchtoolarge"), codes=(10, 18)),
    SendError("NOT_ENOUGH_REPLICAS", "fail",
        "the leader counts the replicas in sync before it appends, so this attempt wrote nothing; an attempt before it"
        " may have got NOT_ENOUGH_REPLICAS_AFTER_APPEND", "Kafka, Partition.appendRecordsToLeader",
        pattern=r"notenoughreplicas(?:exception|error)?\b"),
    SendError("TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "fail",
        "the broker refuses the request before it is written", "Kafka, KafkaApis.handleProduceRequest",
        pattern=r"\w*authori[sz]ation",
        names=("topicauthorizationfailed", "clusterauthorizationfailed", "transactionalidauthorizationfailed",
         "topicauthorization", "clusterauthorization", "transactionalidauthorization"), codes=(29, 31, 53)),
    SendError("SASL_AUTHENTICATION_FAILED", "fail",
        "the connection was refused, so this attempt wrote nothing", JAVA, pattern=r"\w*authentication"),
    SendError("_KEY_SERIALIZATION, _VALUE_SERIALIZATION", "fail",
        "the client could not encode the record", f"{CLIENT}; {LIBRDKAFKA}", pattern=r"\w*seriali[sz]",
        names=("keyserialization", "valueserialization", "serialization"), codes=(-160, -161)),
    SendError("INVALID_RECORD, INVALID_TIMESTAMP, INVALID_REQUIRED_ACKS, UNSUPPORTED_VERSION and others", "fail",
        "the broker checks the request before it writes", "Kafka, LogValidator.validateMessagesAndAssignOffsets",
        pattern=r"(?:err)?(?:invalid|unsupported)\w",
        names=("invalidrecord", "invalidtimestamp", "invalidrequiredacks", "invalidtopic", "invalidmsgsize",
         "unsupportedversion", "unsupportedformessageformat", "unsupportedcompressiontype"),
        codes=(17, 21, 32, 35, 43, 76, 87)),
    SendError("UNKNOWN_TOPIC_OR_PARTITION", "fail",
        "this broker has no such partition, so this attempt wrote nothing", JAVA, pattern="unknowntopic"),
    SendError("CORRUPT_MESSAGE", "fail",
        "the leader checks the CRC of a batch before it writes", "Kafka, UnifiedLog.analyzeAndValidateRecords",
        pattern="corrupt(?:message|record)", names=("corruptmessage", "corruptrecord"), codes=(2,)),
    SendError("OUT_OF_ORDER_SEQUENCE_NUMBER", "fail",
        "the leader did not write this attempt, as a sequence number before it is missing",
        "Kafka, ProducerAppendInfo.checkSequence", pattern="outofordersequence"),
    SendError("PRODUCER_FENCED", "fail",
        "the leader did not write this attempt, as a newer producer has the same transactional.id",
        "Kafka, ProducerAppendInfo.checkProducerEpoch", pattern="producerfenced"),
    SendError("BufferExhaustedException, _QUEUE_FULL", "fail",
        "the client's queue was full, so the record was never sent", f"{CLIENT}; {LIBRDKAFKA}",
        pattern="bufferexhausted|queuefull", names=("bufferexhausted", "queuefull", "buffererrorlocalqueuefull"),
        codes=(-184,)),
    SendError("ConfigException", "fail",
        "the client refused its configuration, so nothing was sent",
        "Kafka, org.apache.kafka.common.config.ConfigException", pattern="config(?:exception|error)"),
    SendError("POLICY_VIOLATION", "fail",
        "the request breaks a policy of the broker, which checks before it writes", JAVA, pattern="policyviolation",
        names=("policyviolation",), codes=(44,)),
)  # fmt: skip

_CERTAIN_NAMES = frozenset(name for row in SEND_ERRORS for name in row.names)
_CERTAIN_CODES = frozenset(code for row in SEND_ERRORS if row.names for code in row.codes)
_NOT_LETTERS = re.compile("[^A-Za-z]")
_SUFFIX = re.compile("(?:Exception|Error)$")
_LEADING_NAME = re.compile(r"(?:[A-Za-z]\w*\.)*_?([A-Za-z]\w*)")


def outcome_of(error: object) -> tuple[Literal["info", "fail"], str]:
    """The outcome of a send that ended with this error, and the error as text for a history.

    `error` is an exception, a KafkaError of confluent-kafka, a code, or a text that begins with the error's name. Only
    an error that certainly wrote nothing is `fail`.
    """
    if isinstance(error, int) and not isinstance(error, bool):
        return ("fail" if error in _CERTAIN_CODES else "info"), str(error)
    name, text = _name_and_text(error)
    plain = _NOT_LETTERS.sub("", _SUFFIX.sub("", name)).lower()
    return ("fail" if plain in _CERTAIN_NAMES else "info"), text


def _name_and_text(error: object) -> tuple[str, str]:
    """The name of an error, and the name with its message."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else None
    candidate: Any
    for candidate in (error, inner):  # KafkaException of confluent-kafka holds a KafkaError
        if candidate is not None and callable(getattr(candidate, "name", None)):
            name = str(candidate.name())
            message = candidate.str() if callable(getattr(candidate, "str", None)) else str(candidate)
            return name, f"{name}: {message}"
    if isinstance(error, BaseException):
        kind, message = type(error).__name__, str(error)
        # confluent-kafka raises BufferError("Local: Queue full") where librdkafka has _QUEUE_FULL.
        name = f"{kind}{message}" if isinstance(error, BufferError) else kind
        return name, f"{kind}: {message}" if message else kind
    text = str(error)
    found = _LEADING_NAME.match(text)
    return (found[1] if found else ""), text
