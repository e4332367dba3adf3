"""A replica's stored log: batches, leader epochs, transactions, segments, and what survives a power loss."""
