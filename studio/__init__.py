"""Whisper Studio: size a GPU, fine-tune Whisper, try the result."""

__version__ = "0.1.0"
