"""Puts state, chooser and watches together for a program."""

from functools import partial

from extender.choosing import NodeChooser
from extender.model import Policies
from extender.moving import Mover
from extender.parts import MakeParts, Parts, Surroundings
from extender.state.cluster import Cluster
from extender.state.feeding import Feed, StateMetrics
from extender.state.view import ClusterView
from hami.deviceconfig import DeviceConfig
from kube.reflector import Pace


def state_parts(config: DeviceConfig, *, pace: Pace | None = None) -> MakeParts:
    """Return what makes the parts that decide with the vendors of *config*."""

    def make(surroundings: Surroundings) -> Parts:
        settings = surroundings.settings
        cluster = Cluster(config, reservation_s=settings.reservation_s)
        policies = Policies(
            node_policy=settings.node_scheduler_policy, gpu_policy=settings.gpu_scheduler_policy
        )
        feed = Feed(
            cluster,
            surroundings.client,
            StateMetrics(surroundings.metrics.registry),
            node_selector=settings.node_label_selector,
            pace=pace,
        )
        chooser = NodeChooser(cluster, policies)
        return Parts(
            chooser=chooser,
            refitter=Mover(cluster, chooser, policies),
            state=ClusterView(cluster, not_synced=feed.not_synced),
            background=(feed,),
            services=(feed.tick, feed.audit, partial(feed.ask_for_life, surroundings.leads)),
            catch_up=feed.catch_up,
        )

    return make
