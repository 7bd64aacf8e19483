"""What is here, what of it works, and what to do about what does not."""
