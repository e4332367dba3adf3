"""Strangers' text in reports: for Markdown, for file names. (HTML is escaped by jinja2, figures by style.printable.)"""

from __future__ import annotations

import hashlib
import re

from .style import printable

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")
# Only a comment keeps GitHub from notifying whoever has that name.
_MENTION = re.compile(r"(?<!\w)@(?=[A-Za-z])")


def markdown(text: object, most: int = 300) -> str:
    """Text that Markdown, with tables and GitHub's extensions, shows as it is: no links, mentions, HTML or breaks."""
    escaped = _MARKDOWN.sub(r"\\\1", printable(text, most))
    escaped = _MENTION.sub("@<!-- -->", escaped)
    return escaped.replace("://", ":\\//").replace("www.", "www\\.")


def file_name(*parts: str) -> str:
    """A name of harmless characters. What had to be changed gets a hash, so that different parts stay different."""
    whole = "-".join(parts)
    safe = re.sub(r"[^a-z0-9-]+", "_", whole.lower())[:60].strip("_-") or "figure"
    if safe == whole:
        return safe
    return f"{safe}-{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
