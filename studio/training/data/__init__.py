"""From rows to batches: what is read, checked, cut, packed, changed and put together."""
