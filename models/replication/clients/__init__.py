"""Producers and consumers, as the Java clients behave."""
