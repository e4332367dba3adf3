"""One small module a variant of the protocol, and one VARIANTS dict."""
