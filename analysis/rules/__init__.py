"""What a log guarantees: a module a family of rules, and one RULES dict."""
