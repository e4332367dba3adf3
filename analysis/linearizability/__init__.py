"""Histories of operations, judged by the engine in models/: key by key, with a minimal example of each failure."""
