"""Text normalisation, error rates, comparison of models."""
