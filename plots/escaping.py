"""Escaping of untrusted text in Markdown and file names. (jinja2 escapes HTML, style.printable escapes figures.)"""

from __future__ import annotations

import hashlib
import re

from .style import printable

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")
# Only a comment keeps GitHub from notifying the user of that name.
_MENTION = re.compile(r"(?<!\w)@(?=[A-Za-z])")


def markdown(text: object, max_chars: int = 300) -> str:
    """Escapes text for Markdown with tables and GitHub's extensions: no links, mentions, HTML or line breaks."""
    escaped = _MARKDOWN.sub(r"\\\1", printable(text, max_chars))
    escaped = _MENTION.sub("@<!-- -->", escaped)
    return escaped.replace("://", ":\\//").replace("www.", "www\\.")


def file_name(*parts: str) -> str:
    """A file name of safe characters. A changed name gets a hash, so that different parts give different names."""
    whole = "-".join(parts)
    safe = re.sub(r"[^a-z0-9-]+", "_", whole.lower())[:60].strip("_-") or "figure"
    if safe == whole:
        return safe
    return f"{safe}-{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
