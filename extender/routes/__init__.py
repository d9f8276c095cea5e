"""What the extender answers over HTTP, one module for each caller."""
