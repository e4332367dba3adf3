"""A broker in parts: process, disk, replicas, request handlers, ISR manager, fetchers, leadership."""
