"""The two kinds of histories that readers read."""

LOG = "log"  # what clients did to a replicated log: sends, polls, commits
OPERATIONS = "operations"  # general operations on objects: registers, queues, locks
