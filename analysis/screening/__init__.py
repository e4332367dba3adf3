"""Proves for many small partitions at once that rules report nothing there, so that few partitions need their rules.

premises.py says under which conditions; screen.py applies them; summaries.py summarises the valid partitions.
"""
