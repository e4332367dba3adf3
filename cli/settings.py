"""Settings on the command line: NAME=VALUE."""

from __future__ import annotations

from ..histories.errors import UsageError


def setting(option: str, text: str, expected: str = "NAME=VALUE") -> tuple[str, str]:
    """The name and the value of a setting. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"found {option} {text}, expected {expected}")
    return name, value


def settings_of(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """The settings by name. If a name is repeated, the last value counts."""
    return dict(setting(option, text) for text in texts)
