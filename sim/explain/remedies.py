"""What has to happen before anything else can help, by code; nothing here is said to suffice."""

_REMEDIES = {
    "ClaimBeingDeleted": "wait until the claim is gone, and create it again",
    "ClaimMissing": "create the claim, or name another one",
    "ClaimNotGenerated": "wait for kube-controller-manager, which makes the claim",
    "ClaimNotForPod": "delete the claim: another pod's claim has the name",
    "ClaimReservedFull": "wait until one of its pods ends",
    "ClassMissing": "create the device class, or name another one",
    "ClaimElsewhere": "delete the pods of the claim and the claim, or run where it is",
    "ClaimMalformed": "write the amount as a Kubernetes quantity",
    "TemplateMissing": "create the template, or name another one",
    "AdminAccessForbidden": "label the namespace, which is an administrator's decision",
    "NoDevicePublished": "run a DRA driver on the node",
    "PoolIncomplete": "wait until the driver has published all its slices",
    "PoolInvalid": "correct what the driver publishes",
    "SchedulingGated": "remove the gates; their owner does that",
    "SelectorFailed": "correct the expression: test for a name before reading it",
}


def remedy_of(code: str) -> str:
    """Return what to do first about *code*, empty where only changes can be tried."""
    return _REMEDIES.get(code, "")
