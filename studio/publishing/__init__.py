"""Models for other programs: exports and their proof."""
