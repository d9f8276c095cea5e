"""Place pods and allocate their devices the way the Kubernetes scheduler does.

The rules are those of the structured allocator (kubernetes:
staging/src/k8s.io/dynamic-resource-allocation/structured) and of the scheduler plugin around it
(pkg/scheduler/framework/plugins/dynamicresources). Where releases differ, a profile decides.
"""
