"""Checks of this machine: GPU, libraries, disk, audio, hub; and what to do about problems."""
