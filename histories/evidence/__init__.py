"""Readers of brokers' files: segments, checkpoints, cluster metadata, logs."""
