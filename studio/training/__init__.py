"""Fine-tuning: one schema, one worker process."""
