"""What `explain`, `diff` and `timeline` ask of a run: single partitions, looked at closely."""
