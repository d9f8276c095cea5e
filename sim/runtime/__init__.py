"""A container runtime without containers: what a container would get, as data.

It applies CDI edits by the rules of the CDI library that containerd and CRI-O use, with a
resolver of its own, so that a spec file which our driver wrote wrongly is found out here.
"""
