"""What is correct, and how systems behave. No input or output, no Spark."""
