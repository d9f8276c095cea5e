"""The main job end to end without a cluster or a GPU.

A simulated cluster of two nodes, the real node agent on each over real sockets, and the manifests
of `examples/`. Everything shown is read back from the API server, the container runtime and the
agents' metrics, and compared with what the manifests ask.
"""
