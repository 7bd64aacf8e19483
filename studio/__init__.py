"""Whisper Studio: estimate GPU memory, fine-tune Whisper, transcribe."""

__version__ = "0.1.0"
