"""Everything that speaks with the Kubernetes API server, and the texts that its objects hold.

Synchronous code with few threads: the node agent pays for every import, so this package does
without the official client except where a kubeconfig has to be read.
"""
