"""The evidence: events of clients and files of brokers. Nothing here judges."""
