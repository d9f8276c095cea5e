"""What goes wrong in a kubelet; each is retried by the loop that meets it.

KubeletError
├── RegistrationError   a plugin socket that could not be registered
├── CallError           a plugin that did not answer, or answered with a gRPC status
├── ClaimError          a claim of a pod that cannot be (un)prepared; the pod waits
└── DeviceError         devices of a plugin that a pod cannot have; at admission the pod fails
"""

import grpc


class KubeletError(Exception):
    """Something kubelet will try again."""


class RegistrationError(KubeletError):
    """A plugin socket that could not be registered."""


class ClaimError(KubeletError):
    """A claim that cannot be prepared or unprepared."""


class DeviceError(KubeletError):
    """Devices that cannot be had, or a device plugin that cannot be taken."""


class CallError(KubeletError):
    """A plugin call without an answer; *code* tells deadline from refusal."""

    def __init__(self, method: str, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{method}: rpc error: code = {code.name} desc = {details}")
        self.code = code
        self.details = details
