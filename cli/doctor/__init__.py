"""`gpuslice doctor`: what of a cluster and of a node fits together, and what to do where not.

`model` holds what is found, `running` asks, `text` and `document` show it; `cluster`, `node` and
`preflight` hold the checks. What cannot be asked is unknown, and never well.
"""
