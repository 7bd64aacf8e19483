"""Scripts that make the demo model and the demo speech; see `assets/README.md`."""
