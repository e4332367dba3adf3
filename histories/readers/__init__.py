"""A module a format, and one READERS dict."""
