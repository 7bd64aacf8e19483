"""What answers over HTTP without the page: the gate before everything, and OpenAI's endpoint."""
