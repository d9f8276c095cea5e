"""`gpuslice node-agent`: one program on every node, for claims or as a device plugin.

Concurrency: as in `dra` and `hami`, synchronous with a few threads.
"""
