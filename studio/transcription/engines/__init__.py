"""The libraries that compute a Whisper, each behind the calls of `studio.transcription.window_model`."""
