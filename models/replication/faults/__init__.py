"""The faults of a run: one function for each kind, and the injector that begins and ends them."""
