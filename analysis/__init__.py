"""Turns what was observed into a verdict: the pipeline, the rules, the causes."""
