"""Records the events of a run as they happen, in the format of the run bundle (docs/format.md)."""
