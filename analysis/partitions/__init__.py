"""The input of the rules for one topic-partition: client operations, log entries, collected brokers' logs."""
