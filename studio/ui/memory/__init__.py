"""The GPU memory tab."""
