"""The kinds of histories that readers read."""

LOG = "log"  # what clients did to a replicated log: sends, polls, commits
TRANSACTIONS = "transactions"  # transactions on lists or registers
OPERATIONS = "operations"  # general operations on objects: registers, queues, locks
CHECKED = (LOG, TRANSACTIONS)  # by `logjudge check`
