"""The queue of training runs and the processes behind it."""
