"""Numbers that are the same in every Whisper, and that its files do not say."""

ENGLISH_VOCABULARY = 51864
"""Tokens of a model that knows English alone; all others have more."""
TEXT_POSITIONS = 448
"""Of the decoder: prompt and text together; the longest label."""
