"""The options of a run: one schema, from which flags, form, files, help and checks derive."""
