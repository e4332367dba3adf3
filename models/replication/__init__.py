"""Kafka's replication protocol as a deterministic model, and its historical variants."""
