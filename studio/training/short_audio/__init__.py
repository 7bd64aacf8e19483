"""Short-audio mode: the encoder sees the length of each batch, not 30 seconds."""
