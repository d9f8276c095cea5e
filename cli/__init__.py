"""The `gpuslice` command: what a person types, and the processes that the demo starts."""
