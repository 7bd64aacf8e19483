"""Manifests, audio, features, and the data check."""
