"""What a broker stores of a partition: batches, their leader epochs, and what survives a power loss."""
