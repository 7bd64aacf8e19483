"""What models there are: released, downloaded, trained, exported."""
