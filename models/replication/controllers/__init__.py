"""The metadata quorum (or ZooKeeper) and the controllers that elect leaders."""
