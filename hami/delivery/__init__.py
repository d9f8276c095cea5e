"""Brings HAMi-core's library from an image onto the node, and judges whether it fits there.

What a copy is called and who may remove it is `cdi.library`'s, for claims use the same copies.
"""
