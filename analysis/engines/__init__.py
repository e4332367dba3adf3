"""Where a run is judged: `local` with polars alone, `spark` on a cluster. Both put the steps of stages.py together."""
