"""Brings HAMi-core's library from an image onto the node.

What a copy is called, whether it fits and who may remove it is `cdi`'s: claims use the same copies.
"""
