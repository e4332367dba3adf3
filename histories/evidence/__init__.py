"""Readers of what brokers keep: segments, checkpoints, cluster metadata, their own logs."""
