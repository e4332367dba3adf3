"""The engines that judge a run: `local` with polars, `spark` on a cluster. Both combine the steps of stages.py."""
