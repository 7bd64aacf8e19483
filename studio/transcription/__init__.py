"""From audio to text with times."""
