"""The verdict from findings: consequences, accepted breaches, assumptions, evidence coverage, verdict.json."""
