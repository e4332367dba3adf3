"""Which errors of a history leave it open whether a broker wrote a record, whatever a client calls the outcome.

The errors are in `send_errors.py`. Here they are found in any spelling of a history's free text.
"""

from __future__ import annotations

import polars as pl

from .send_errors import SEND_ERRORS

_OPEN = [row for row in SEND_ERRORS if row.outcome == "info"]
_OPEN_TEXTS = [text for row in _OPEN for text in row.texts]
_OPEN_WORDS = [word for row in _OPEN for word in row.first_words]
_OPEN_PATTERN = "|".join(row.pattern for row in _OPEN if row.pattern)
_OPEN_CODES = [str(code) for row in _OPEN for code in row.codes]
_CODE = r"^\s*(?:error[\s:=]+)?(-?\d+)\s*$|^\[(?:error )?(-?\d+)\]|\b(?:code|error|err|val)[\"']?\s*[:=]\s*(-?\d+)\b"
# An error that refuses a record before it is written; the rest of the text explains it and may be in any words.
_REFUSED = rf"\b(?:{'|'.join(row.pattern for row in SEND_ERRORS if row.outcome == 'fail')})(?s:.*)"
_SETTING = r"\b(?:[a-z]+\.)+ms\b"  # as in "delivery.timeout.ms should be larger"
# Who only passes an error on: the cause stands behind it.
_WRAPPED = r"^(?:(?:[\w$]+\.)*(?:ExecutionException|CompletionException|KafkaException|KafkaError|Broker|Local):\s*)+"


def is_undecided(error: pl.Expr) -> pl.Expr:
    """Whether nobody knows what became of a send with this error (null: none told), by its name, text or code."""
    told = error.fill_null("").str.replace(_WRAPPED, "")
    name = _plain(told.str.extract(r"^(?:ERR_)?(?:[\w$]+\.)*(\w+)")).str.replace(r"(?:exception|error)$", "")
    words = told.str.to_lowercase().str.replace_all("_", "").str.replace_all(_SETTING, "").str.replace(_REFUSED, "")
    known = _plain(words).str.contains_any(_OPEN_TEXTS)
    known |= words.str.contains(_OPEN_PATTERN)
    code = pl.coalesce(words.str.extract(_CODE, group) for group in (1, 2, 3))
    named = name.is_in(_OPEN_WORDS) & ~_is_sentence(told)
    return known | named.fill_null(False) | code.is_in(_OPEN_CODES).fill_null(False)


def _plain(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all("[^A-Za-z]", "").str.to_lowercase()


def _is_sentence(told: pl.Expr) -> pl.Expr:
    """Whether it begins with a mere word: "Unknown topic" is no UNKNOWN."""
    return told.str.contains(r"^Unknown\s+\w")
