"""A Kubernetes API server in the process: real HTTP, real semantics, no etcd.

Layers, each knowing only those before it: `resources` and `schemas` (what exists), `decoding`,
`defaults`, `versions` and `rules` (what is kept and allowed), `storage` and `watching` (what is
there and what happened), `registry` (reads and writes), `api` and `http` (the two doors),
`server` (all of it on a port).
"""
