"""How many bytes: pure arithmetic, without torch."""
