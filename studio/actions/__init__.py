"""What can be done with the studio: page, command line and programs ask it here."""
