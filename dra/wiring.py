"""How an administrator's settings become the parts that `dra.plugin` puts together."""

import threading
from pathlib import Path

from cdi import hooks
from cdi.hooks import HookStrategy
from cdi.library import LibraryStore
from dra.deviceedits import Delegation, DeviceNumbers, Scan
from dra.devices import SharingPolicy
from dra.healthwatch import HealthRules
from dra.inventory import LibrarySource
from dra.offer import Effect, OfferRules
from dra.options import Privileges
from dra.plan import Rules
from dra.settings import AgentSettings
from gpu import driver
from gpu.driver import DriverRoot
from gpu.xids import XidPolicy, XidSet
from kube.config import ClientConfig, load_config
from kube.draversions import VersionedClient


def client(settings: AgentSettings, identity: ClientConfig | None) -> VersionedClient:
    """Return a connection to the API server; *identity* replaces the one that they point to."""
    kubeconfig = str(settings.kubeconfig) if settings.kubeconfig else None
    return VersionedClient(
        identity or load_config(kubeconfig),
        user_agent="gpuslice-node-agent",
        api_version=settings.resource_api_version,
    )


def rules(settings: AgentSettings) -> Rules:
    """Return the administrator's part in what may be prepared."""
    return Rules(
        privileges=Privileges(
            unlimited_namespaces=frozenset(settings.unlimited_namespaces),
            priority_namespaces=frozenset(settings.priority_namespaces),
        ),
        minimum_memory_mib=settings.minimum_share_mib,
    )


def offer_rules(settings: AgentSettings) -> OfferRules:
    """Return the administrator's part in what is offered."""
    return OfferRules(
        sharing=SharingPolicy(shares_per_gpu=settings.shares_per_gpu),
        unhealthy_effect=Effect(settings.unhealthy_effect),
    )


def health_rules(settings: AgentSettings) -> HealthRules:
    """Return the administrator's part in what is ill."""
    return HealthRules(
        policy=XidPolicy(
            ignored=XidSet.parse(settings.ignored_xids),
            critical=XidSet.parse(settings.critical_xids),
        ),
        recovery_s=settings.xid_recovery_s,
    )


def library_source(settings: AgentSettings, directory: Path) -> LibrarySource:
    """Return where HAMi-core comes from; copies are kept in *directory*."""
    return LibrarySource(
        path=settings.hami_core_library,
        kept=LibraryStore(directory, str(directory)),
        accept_placeholder=settings.accept_placeholder_library,
    )


def find_driver(settings: AgentSettings, stop: threading.Event) -> DriverRoot:
    """Return where the driver is; *stop* ends the wait for it."""
    return driver.find(
        settings.nvidia_driver_root,
        host_root=settings.host_root,
        operator_wait_s=settings.operator_wait_s,
        stop=stop,
    )


def device_edits(settings: AgentSettings, device_numbers: DeviceNumbers) -> Scan | Delegation:
    """Return what finds out what a container needs for a device."""
    if settings.nvidia_ctk is not None:
        return Delegation(command=(settings.nvidia_ctk,))

    def strategy(root: DriverRoot) -> HookStrategy:
        roots = [(root.local_path, root.host_path), (settings.host_root, "/")]
        return hooks.choose(settings.hooks, binary=settings.hook_binary, roots=roots)

    return Scan(
        proc_root=settings.proc_root,
        sys_root=settings.sys_root,
        hooks=strategy,
        device_numbers=device_numbers,
    )
