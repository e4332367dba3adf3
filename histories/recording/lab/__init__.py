"""A real Kafka cluster on this machine's loopback, with faults that need no privileges."""
