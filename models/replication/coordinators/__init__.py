"""Coordinators of groups, their committed offsets, and transactions."""
