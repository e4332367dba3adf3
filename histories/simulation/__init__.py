"""Seeded runs of models/replication under faults, written as run bundles."""
