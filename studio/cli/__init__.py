"""The command line: a module per command, each calling what its tab calls."""
