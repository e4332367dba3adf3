"""What brokers kept of one topic-partition: its logs, who leads, and what that settles for the clients' view."""
