"""The faults that a run injects: one function a fault, and the injector that ends them."""
