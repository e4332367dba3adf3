"""The dated facts of one topic-partition, from every kind of evidence: terms of leadership, log ends, deaths."""
