"""Two real training steps of a plan in a process of their own, to measure what they take."""
