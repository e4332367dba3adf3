"""Specifications of correct behaviour, and models of systems. No input or output, no Spark."""
