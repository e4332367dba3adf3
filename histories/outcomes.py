"""Errors that leave the outcome of a send indeterminate, even where the client recorded `fail`.

`send_errors.py` lists the errors. Case, underscores and all characters between letters are ignored, so every spelling
matches.
"""

from __future__ import annotations

import polars as pl

from .send_errors import SEND_ERRORS

_INDETERMINATE = [row for row in SEND_ERRORS if row.outcome == "info"]
_TEXTS = [text for row in _INDETERMINATE for text in row.texts]
_AMBIGUOUS_NAMES = [word for row in _INDETERMINATE for word in row.first_words]
_PATTERN = "|".join(row.pattern for row in _INDETERMINATE if row.pattern)
_CODES = [str(code) for row in _INDETERMINATE for code in row.codes]
_CODE = r"^\s*(?:error[\s:=]+)?(-?\d+)\s*$|^\[(?:error )?(-?\d+)\]|\b(?:code|error|err|val)[\"']?\s*[:=]\s*(-?\d+)\b"
# Errors that refuse a record before it is written. The text after them explains them and may contain anything.
_REFUSED = rf"\b(?:{'|'.join(row.pattern for row in SEND_ERRORS if row.outcome == 'fail')})(?s:.*)"
_SETTING = r"\b(?:[a-z]+\.)+ms\b"  # as in "delivery.timeout.ms should be larger"
# Wrappers of an error: its name follows them.
_WRAPPED = r"^(?:(?:[\w$]+\.)*(?:ExecutionException|CompletionException|KafkaException|KafkaError|Broker|Local):\s*)+"


def is_indeterminate(error: pl.Expr) -> pl.Expr:
    """Whether a send with this error may have been written, by the error's name, text or code. Null: no error."""
    text = error.fill_null("").str.replace(_WRAPPED, "")
    name = _letters(text.str.extract(r"^(?:ERR_)?(?:[\w$]+\.)*(\w+)")).str.replace(r"(?:exception|error)$", "")
    words = text.str.to_lowercase().str.replace_all("_", "").str.replace_all(_SETTING, "").str.replace(_REFUSED, "")
    matches = _letters(words).str.contains_any(_TEXTS)
    matches |= words.str.contains(_PATTERN)
    code = pl.coalesce(words.str.extract(_CODE, group) for group in (1, 2, 3))
    is_sentence = text.str.contains(r"^Unknown\s+\w")  # "Unknown topic" is not the error UNKNOWN
    named = name.is_in(_AMBIGUOUS_NAMES) & ~is_sentence
    return matches | named.fill_null(False) | code.is_in(_CODES).fill_null(False)


def _letters(text: pl.Expr) -> pl.Expr:
    """The letters of a text, in lower case."""
    return text.str.replace_all("[^A-Za-z]", "").str.to_lowercase()
