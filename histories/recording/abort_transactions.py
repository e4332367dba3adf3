"""Aborts the transactions that are still open, before the final reads, as an operator would.

An open transaction hides the records behind it from read_committed consumers, and so from the final reads.
Initialising a transactional.id again aborts its open transaction, or completes a commit that the coordinator had
accepted (KIP-98). The history has this step as a fault of kind init-transactions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .kafka_clients import confluent_kafka, make_client
from .session import Session

INIT_SECONDS = 60.0  # for all transactional ids
CALL_SECONDS = 20.0
KIND = "init-transactions"


def abort_transactions(session: Session) -> None:
    """Initialise each transactional.id of the run again. Its outcome is `info` if that fails."""
    if not session.transactional:
        return
    end = time.monotonic() + INIT_SECONDS
    with session.recorder.fault(KIND, nodes=[], transactional_ids=sorted(session.transactional)) as step:
        for _, config in sorted(session.transactional.items()):
            error = _initialise(session, config, end)
            if error is not None:
                step.info(error)
                return
        step.ok()


def _initialise(session: Session, config: Mapping[str, Any], end: float) -> Exception | None:
    """Initialise one transactional.id, again and again until a time; returns the last error if that fails."""
    while True:
        try:
            make_client("Producer", session.settings, config).init_transactions(CALL_SECONDS)
        except confluent_kafka().KafkaException as error:
            if time.monotonic() > end or not error.args[0].retriable():
                failure: Exception = error
                return failure
            time.sleep(0.5)
        else:
            return None
