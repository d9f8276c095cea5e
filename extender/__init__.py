"""The kube-scheduler extender for clusters without consumable capacity."""
