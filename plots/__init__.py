"""Small records in, matplotlib figures out: a module a figure, and one PLOTS dict."""
