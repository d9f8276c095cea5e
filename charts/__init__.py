"""The chart, and what makes parts of it; no program of ours imports this."""
