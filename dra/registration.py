"""The registration service: kubelet asks who is there, then tells whether it took the plugin.

Kubelet waits one second for `GetInfo` and backs off for minutes when it is late, so the answer is
made from memory and the service starts last. A restarted kubelet asks again: that is no error.
"""

import time
from collections.abc import Callable

import grpc
import structlog

from cdi.faults import FaultPoint, reach
from gpu import names
from protos import pluginregistration_v1_pb2 as registration
from protos import pluginregistration_v1_pb2_grpc as registration_grpc

PLUGIN_TYPE = "DRAPlugin"
SUPPORTED_VERSIONS = (
    # Kubelet takes the first DRA service that it knows.
    "v1.DRAPlugin",
    "v1beta1.DRAPlugin",
    "v1.DRAResourceHealth",
    "v1alpha1.DRAResourceHealth",
)
COMPLAIN_AFTER_S = 60.0

log = structlog.get_logger(__name__)


class RegistrationServicer(registration_grpc.RegistrationServicer):
    """Answers kubelet and remembers what it said last."""

    def __init__(self, endpoint: str, *, registered: Callable[[], None] = lambda: None) -> None:
        """Answer for the DRA socket at *endpoint*; call *registered* each time it is taken."""
        self._on_registered = registered
        self._info = registration.PluginInfo(
            type=PLUGIN_TYPE,
            name=names.DRIVER,
            endpoint=endpoint,
            supported_versions=SUPPORTED_VERSIONS,
        )
        self._started = time.monotonic()
        self._error = ""
        self._registered = False

    def GetInfo(  # noqa: N802  # the wire's name
        self,
        request: registration.InfoRequest,  # noqa: ARG002
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> registration.PluginInfo:
        """Say who this is and where it serves."""
        reach(FaultPoint.INFO_ANSWERED)
        return self._info

    def NotifyRegistrationStatus(  # noqa: N802
        self, request: registration.RegistrationStatus, context: grpc.ServicerContext
    ) -> registration.RegistrationStatusResponse:
        """Take note of kubelet's verdict."""
        self._registered, self._error = request.plugin_registered, request.error
        if not request.plugin_registered:
            log.error("registration refused", reason=request.error)
            context.abort(grpc.StatusCode.INTERNAL, f"not registered: {request.error}")
        log.info("registered with kubelet")
        self._on_registered()
        reach(FaultPoint.REGISTRATION_ANSWERED)
        return registration.RegistrationStatusResponse()

    def problem(self) -> str | None:
        """Return why the plugin is not registered, `None` when it is."""
        if self._registered:
            return None
        return self.overdue() or "waiting for kubelet to register the plugin"

    def overdue(self) -> str | None:
        """Return what to check when kubelet has refused the plugin, or is long silent."""
        if self._registered:
            return None
        if self._error:
            return f"kubelet refused the plugin: {self._error}"
        if time.monotonic() - self._started > COMPLAIN_AFTER_S:
            return "kubelet did not register the plugin; check that its root directory is right"
        return None
