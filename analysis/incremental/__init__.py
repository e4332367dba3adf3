"""Judges a history that grows: each call reads what was appended, and carries on from the state of the last call.

judging.py: one call; closing.py: what later calls no longer need; state.py: the file between calls.
"""
