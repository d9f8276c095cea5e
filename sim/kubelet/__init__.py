"""A kubelet as far as DRA drivers and their pods can tell.

It watches for plugin sockets, calls real plugins over gRPC with the checks and the state that
the kubelet of a chosen Kubernetes version has (kubelet: `pkg/kubelet/cm/dra`,
`pkg/kubelet/pluginmanager`), and hands the containers of bound pods to a `sim.runtime`.
"""
