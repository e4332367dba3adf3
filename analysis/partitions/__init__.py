"""One topic-partition as the rules see it: what clients did, what its log held, and what brokers kept of it."""
