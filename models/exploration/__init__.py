"""What finished runs show: truth, invariants, searches for a breach, and the narrative of one run."""
