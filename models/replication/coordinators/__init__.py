"""What brokers coordinate for clients: committed offsets. Groups and transactions belong here too."""
