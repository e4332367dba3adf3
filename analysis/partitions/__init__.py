"""One topic-partition as the rules see it: operations of clients, the log's entries, and brokers' evidence."""
