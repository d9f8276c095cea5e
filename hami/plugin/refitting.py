"""Asks the scheduler extender for other devices, where kubelet allows none of those decided.

Kubelet's topology manager may hold a container to the GPUs of one NUMA node. The extender then
chooses again among these and writes that on the pod (messages as in HAMi after v2.10,
`pkg/device/numa_refit.go`). It is told by a token who asks, so it is only spoken to when its
certificate is good. Kubelet waits meanwhile, so it has a few seconds.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from gpu.refusal import Refusal, RefusedError
from hami.devices import PodDevice
from hami.plugin.claimants import Claimant
from hami.poddevices import decode_pod_devices
from hami.reading import Undecodable
from hami.requests import NVIDIA
from hami.wording import shown
from kube.client import Client
from kube.config import ClientConfig, FileToken
from kube.errors import ConfigError, KubeError
from kube.objects import JsonObject

PATH: Final = "/refit"
TIMEOUT_S: Final = 4.0
_UUIDS_MAX: Final = 512
"""The extender takes no more."""


class Refitter(Protocol):
    """Finds other devices for one container."""

    def refit(
        self, claimant: Claimant, place: int, allowed: Collection[str]
    ) -> tuple[PodDevice, ...]:
        """Return devices of GPUs among *allowed*, which the pod then has; raises `RefusedError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extender:
    """Where the extender is and how both sides prove who they are."""

    endpoint: str
    """An https URL; without a path it is that of `/refit`."""
    ca_file: Path | None
    """`None` trusts the system's authorities."""
    token_file: Path
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
            message = (
                f"`{shown(self.endpoint)}` is no https URL such as https://scheduler:9445/refit"
            )
            raise ValueError(message)


class _Answer(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")

    succeeded: bool = False
    container_devices: str = ""
    failure_reason: str = Field(default="", max_length=4096)


class ExtenderRefitter:
    """A `Refitter`; safe to use from several threads."""

    def __init__(self, extender: Extender, *, node: str, user_agent: str) -> None:
        self._extender, self._node, self._user_agent = extender, node, user_agent
        self._token = FileToken(extender.token_file)
        self._guard = threading.Lock()
        self._client: Client | None = None
        self._authority: tuple[int, int, int] | None = None

    def refit(
        self, claimant: Claimant, place: int, allowed: Collection[str]
    ) -> tuple[PodDevice, ...]:
        """Ask once; the pod carries the new devices when this returns."""
        if not 0 < len(allowed) <= _UUIDS_MAX:
            reason = f"at most {_UUIDS_MAX} GPUs can be asked for, not {len(allowed)}"
            raise _refused(claimant, place, reason)
        body = self._question(claimant, place, allowed)
        has_path = urlsplit(self._extender.endpoint).path not in {"", "/"}
        try:
            said = self._current().create("" if has_path else PATH, body)
            answer = _Answer.model_validate_json(said)
        except ValidationError as error:
            reason = "the extender's answer cannot be read"
            raise _refused(claimant, place, reason) from error
        except KubeError as error:
            reason = f"the extender cannot be asked: {error}"
            raise _refused(claimant, place, reason) from error
        if not answer.succeeded:
            reason = f"the extender finds no others: {shown(answer.failure_reason)}"
            raise _refused(claimant, place, reason)
        slots = decode_pod_devices(answer.container_devices, 1)
        if isinstance(slots, Undecodable) or not slots[0]:
            reason = "the extender's answer names no devices"
            raise _refused(claimant, place, reason)
        return slots[0]

    def _question(self, claimant: Claimant, place: int, allowed: Collection[str]) -> JsonObject:
        identity = claimant.identity
        return {
            "podUID": identity.uid,
            "podNamespace": identity.key.namespace,
            "podName": identity.key.name,
            "nodeName": self._node,
            "containerIndex": place,
            "containerName": claimant.containers[place].name,
            "deviceType": NVIDIA,
            "allowedDeviceUUIDs": sorted(allowed),
        }

    def _current(self) -> Client:
        """Return a client that trusts the authority as its file says now."""
        path = self._extender.ca_file
        try:
            found = None if path is None else path.stat()
        except OSError as error:
            message = f"the CA file {path} cannot be read: {error.strerror}"
            raise ConfigError(message) from error
        authority = None if found is None else (found.st_dev, found.st_ino, found.st_mtime_ns)
        with self._guard:
            if self._client is None or authority != self._authority:
                config = ClientConfig(
                    host=self._extender.endpoint,
                    ca_file=None if path is None else str(path),
                    token=self._token,
                )
                self._client = Client(
                    config, user_agent=self._user_agent, timeout_s=self._extender.timeout_s
                )
                self._authority = authority
            return self._client


def _refused(claimant: Claimant, place: int, reason: str) -> RefusedError:
    return RefusedError(
        Refusal(
            code="NotRefitted",
            field=f"pod {claimant.identity.key}",
            value=claimant.containers[place].name,
            limit=f"kubelet allows other GPUs than were decided, and {reason}",
            remedy="the pod has to be created again; its controller does that",
        )
    )
