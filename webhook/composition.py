"""Puts the webhook together: what it knows, who leads, what decides, and what runs beside it.

The order of starting is that of needing: the view before those who read it. Ending goes the other
way, so the Lease is given back before the watches end and another replica can take over at once.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpu.names import DRIVER
from hami.deviceconfig import DeviceConfig, DeviceConfigError
from hami.deviceconfigfile import Loaded, load
from hami.quota import quota_names
from kube.client import Client
from kube.configfile import FileFigures, FileWatch
from kube.election import Elector
from kube.events import EventRecorder
from kube.lease import identity_of
from kube.objects import JsonObject
from kube.owners import service_owner
from webhook.access import NodeWriters
from webhook.admission import Admission
from webhook.booking import Tariff
from webhook.claimadmission import ClaimAdmission
from webhook.claims import TranslationSettings
from webhook.claimspec import CLASSES
from webhook.leaderforward import LeaderForward, Trust
from webhook.mode import Mode, ModeProbe
from webhook.parts import Parts, StartError, Surroundings
from webhook.podadmission import PodAdmission
from webhook.podsettings import PodRules
from webhook.quotabooks import Books
from webhook.quotacheck import QuotaCheck
from webhook.quotaevents import QuotaEvents
from webhook.quotafigures import QuotaFigures
from webhook.quotafresh import ApiLists
from webhook.quotausage import Prices, pod_reader
from webhook.settings import WebhookSettings
from webhook.shares import ClaimRules
from webhook.templatecontent import expected_templates
from webhook.templates import TemplateController, TemplatePace
from webhook.trimming import is_translated
from webhook.view import ClusterView, Kind
from webhook.waitingfigures import WaitingFigures

CORE_POLICIES: Final = ("default", "force", "disable")
_ELECTION_TIMEOUT_S: Final = 2.0


def make_parts(surroundings: Surroundings) -> Parts:
    """Return all parts; raises `StartError`."""
    settings = surroundings.settings
    loaded = device_config(settings)
    config = loaded.config
    knowing = _Knowing.of(surroundings, config)
    writers = NodeWriters(surroundings.client)
    forward = _forward(surroundings)
    prices = _prices(settings, config, knowing.view)
    quota = _quota(surroundings, prices, knowing, forward) if settings.quota else None
    rules = pod_rules(settings, config)
    pods = PodAdmission(
        rules,
        knowing.view,
        claims_serve=knowing.claims_serve,
        may_write_nodes=writers.may_write_nodes,
        quota=quota,
    )
    claims = ClaimAdmission(
        knowing.view,
        surroundings.client,
        uncontrolled_namespaces=settings.uncontrolled_namespaces,
        quota=quota,
        rules=ClaimRules(
            classes=device_classes(settings),
            may_ignore_cores=rules.translation.core_policy == "disable",
        ),
    )
    admission = Admission(
        pods,
        claims,
        may_write_nodes=writers.may_write_nodes,
        more_owned=frozenset[str]().union(*(each.owned_keys for each in config.vendors)),
        exempt_namespaces=settings.exempt_namespaces,
    )
    templates = TemplateController(
        surroundings.client,
        knowing.view,
        knowing.events,
        leads=knowing.elector.is_leader,
        pace=TemplatePace(grace_s=settings.template_grace_s),
    )
    metrics = surroundings.metrics
    metrics.is_leader.set_function(knowing.elector.is_leader)
    metrics.registry.register(WaitingFigures(knowing.view, prices))
    if quota is not None:
        metrics.registry.register(QuotaFigures(quota, knowing.view))
    metrics.registry.register(FileFigures(loaded.states))
    return Parts(
        mutate=admission.mutate,
        validate=admission.validate,
        background=(
            knowing.view,
            knowing.mode,
            knowing.elector,
            _Ended(knowing.events.close),
            _Ended(forward.close),
            templates,
            FileWatch(loaded.files),
        ),
        services=() if quota is None else (quota.run,),
        ready_checks={"mode": knowing.mode.problem, "view": knowing.not_synced},
    )


def device_config(settings: WebhookSettings) -> Loaded:
    """Return the configuration that the settings point to; raises `StartError`.

    Without one only NVIDIA's GPUs are ours: a cluster with other devices need not have HAMi's
    scheduler, and their pods would wait for it for ever.
    """
    path = settings.device_config
    if path is None:
        return Loaded(DeviceConfig(vendors=()))
    try:
        return load(
            path,
            ascend=settings.enable_ascend,
            iluvatar=settings.enable_iluvatar,
            neuron_cores_per_device=settings.neuron_cores_per_device,
        )
    except DeviceConfigError as error:
        message = f"--device-config: {error}"
        raise StartError(message) from error


def pod_rules(settings: WebhookSettings, config: DeviceConfig) -> PodRules:
    """Return what the administrator decides about pods."""
    policy = next((each for each in CORE_POLICIES if each == config.nvidia.gpu_core_policy), None)
    return PodRules(
        config=config,
        translation=TranslationSettings(
            keys=config.nvidia.keys,
            core_policy=policy or "default",
            fallback_sizes_mib=settings.sizes_mib,
            fallback_shares=(config.nvidia.device_split_count,),
        ),
        scheduler_name=settings.scheduler_name,
        force_overwrite=settings.force_overwrite,
        least_memory_mib=settings.minimum_share_mib,
        uncontrolled_namespaces=settings.uncontrolled_namespaces,
        classes=device_classes(settings),
        environment_warns=settings.share_environment == "warning",
        promotes=settings.uncontrolled_shares == "whole-gpu",
    )


def device_classes(settings: WebhookSettings) -> frozenset[str]:
    """Return the DeviceClasses that give devices of ours."""
    return CLASSES.union(settings.device_classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Knowing:
    """What is known of the cluster, and whether this replica leads."""

    view: ClusterView
    mode: ModeProbe
    elector: Elector
    events: EventRecorder

    @classmethod
    def of(cls, surroundings: Surroundings, config: DeviceConfig) -> "_Knowing":
        settings, client = surroundings.settings, surroundings.client
        keys = set(config.nvidia.keys)
        for vendor in config.vendors:
            keys |= vendor.keys
        view = ClusterView(
            client,
            resource_keys=frozenset(filter(None, keys)),
            claims_serve=settings.mode != "hami",
            classes=device_classes(settings),
        )

        def mode_changed(_old: Mode | None, new: Mode) -> None:
            view.follow(claims_serve=new is Mode.DRA)

        name = settings.pod_name or socket.gethostname()
        host = settings.advertise_address or socket.gethostname()
        mode = ModeProbe(
            client,
            namespace=settings.namespace,
            setting=settings.mode,
            on_change=mode_changed,
            registry=surroundings.metrics.registry,
        )
        view.on_connected(mode.ask_again)
        electing = Client(
            surroundings.identity, user_agent="gpuslice-webhook", timeout_s=_ELECTION_TIMEOUT_S
        )
        elector = Elector(
            electing,
            namespace=settings.namespace,
            name=settings.lease_name,
            identity=identity_of(name, address(host, surroundings.port)),
            owners=service_owner(
                electing, namespace=settings.namespace, name=settings.service_name
            ),
        )
        events = EventRecorder(client, component=f"{DRIVER}/webhook", host=name)
        return cls(view=view, mode=mode, elector=elector, events=events)

    def claims_serve(self) -> bool | None:
        """Tell whether requests become claims, `None` as long as it is not known."""
        mode = self.mode.mode()
        return None if mode is None else mode is Mode.DRA

    def follows_pod(self, pod: JsonObject) -> bool:
        """Tell whether the view shows a pod that asks for devices."""
        return is_translated(pod) or not self.claims_serve()

    def not_synced(self) -> str | None:
        """Return what has not been read yet."""
        if self.view.synced():
            return None
        return f"not read yet: {', '.join(sorted(self.view.unsynced()))}"


def address(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _forward(surroundings: Surroundings) -> LeaderForward:
    settings = surroundings.settings
    return LeaderForward(
        identity=settings.pod_name or socket.gethostname(),
        server_name=settings.hosts[0],
        tls=Trust(surroundings.authorities),
    )


def _prices(settings: WebhookSettings, config: DeviceConfig, view: ClusterView) -> Prices:
    names = quota_names(config.nvidia, config.vendors)
    return Prices(
        names=names,
        tariff=Tariff(names=names[0], classes=device_classes(settings), memory_of=view.memory_of),
        read_pod=pod_reader(config),
        expected_templates=expected_templates,
    )


def _quota(
    surroundings: Surroundings, prices: Prices, knowing: _Knowing, forward: LeaderForward
) -> QuotaCheck:
    view = knowing.view
    events = QuotaEvents(knowing.events, prices.names, knowing.elector.is_leader)

    def look_at_quotas(kind: Kind, namespace: str) -> None:
        if kind is Kind.QUOTAS:
            for each in view.quotas(namespace):
                events.look(each)

    view.on_change(look_at_quotas)
    return QuotaCheck(
        view=view,
        prices=prices,
        books=Books(
            view, prices, fresh=ApiLists(surroundings.client), follows_pod=knowing.follows_pod
        ),
        leadership=knowing.elector,
        forward=forward,
        on_leading=events.begin_to_lead,
    )


class _Ended:
    """Something that began when it was made, and has to be ended."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """End it."""
        self._end()
