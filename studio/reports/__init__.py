"""What is shown as HTML, on the page and in files."""
