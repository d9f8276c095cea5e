"""The controllers that a cluster with DRA cannot do without, each as one asyncio task.

Every module with a `run(api)` stands for one controller of kube-controller-manager; `manager`
runs them all. They look at the server at each step instead of keeping informer caches: in one
process a read costs less than being wrong.
"""
