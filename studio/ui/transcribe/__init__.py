"""The Transcribe tab: a recording, many files, live, side by side."""
