"""One function a tab."""
