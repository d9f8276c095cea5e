"""HAMi's device plugin for NVIDIA: offers cards to kubelet, hands out what a scheduler decided.

Concurrency: synchronous gRPC with a few threads, as in the rest of the node agent; one thread each
for the announcement on the node and for the registration with kubelet. One lock serialises
Allocate, since the protocol tells which pod it is for by a lock on the node.
"""
