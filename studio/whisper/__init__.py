"""Whisper's forward pass, where it is not transformers' own: the loss in chunks, audio below 30 seconds."""
