"""The collected logs of one topic-partition, its leader, and the outcomes of sends that the logs resolve."""
