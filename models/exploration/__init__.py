"""The truth, invariants and narrative of finished runs, and searches for a breach."""
