"""Kubelet's gRPC contracts, written by hand from their field numbers; stubs are built."""
