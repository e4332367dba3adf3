"""Judges a history that grows: each call reads what was appended, and carries on from the state of the last call.

judging.py: one call; closing.py: parts that later calls do not need; state.py: the file between calls.
"""
