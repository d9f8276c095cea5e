"""The kubelet plugin: publishes a node's GPUs, prepares claims on them, survives what nodes do.

Concurrency: synchronous gRPC with a few threads, because that is measurably faster than an event
loop for calls this short; one thread each for the publisher, the pod watch, the sweep and the
inventory; all state is behind `dra.state`'s lock, which other processes respect too.
"""
