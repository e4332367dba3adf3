"""Inspection of single partitions, for `explain`, `diff` and `timeline`."""
