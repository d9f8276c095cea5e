"""What the extender knows of the cluster: nodes, pods and quotas, and who holds which device.

One object in the loop owns it; watches feed it, decisions read it and reserve in it.
"""
