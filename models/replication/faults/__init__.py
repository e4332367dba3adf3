"""The faults of a run: one function for each kind. `../run.py` begins and ends them."""
