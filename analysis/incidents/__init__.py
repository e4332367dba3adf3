"""From findings to incidents: the cause of each finding, then all findings and explanations of one event joined.

explaining.py explains the findings of one partition. A module for each thing that is explained collects the evidence
from the partition: losses.py, divergences.py, missed.py, repeats.py, and truncations.py for brokers' files alone. The
proofs are in causes/. joining.py joins the explanations of all partitions into incidents.
"""
