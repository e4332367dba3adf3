"""Dependencies between transactions, and the cycles that they form."""
