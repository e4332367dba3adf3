"""Why a finding happened: a module a cause, and one CAUSES dict."""
