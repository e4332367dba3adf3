"""Runs the model of the replication protocol and writes what clients and brokers would have left behind."""
