"""The preflight: a claim and a pod that prove that what a node gives away arrives in a container.

It is all that this command ever writes, and whatever happens it is deleted again.
"""
