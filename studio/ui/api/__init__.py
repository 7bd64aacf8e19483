"""The functions of the page for programs, and as tools (MCP)."""
