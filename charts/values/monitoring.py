"""The values of metrics, alerts and the dashboard, and of network policies."""

from pydantic import Field

from charts.values.kubernetes import NetworkPolicyPeer
from charts.values.section import Cidr, Duration, Label, Section, Texts


class ServiceMonitor(Section):
    """Of Prometheus' operator."""

    enabled: bool = Field(default=False, description="Whether to make PodMonitors.")
    interval: Duration = Field("30s", description="How often metrics are read.")
    labels: Texts = Field({}, description="Labels by which Prometheus finds them.")
    namespace: Label = Field("", description="Another namespace for them.")


class PrometheusRule(Section):
    """Of Prometheus' operator."""

    enabled: bool = Field(default=False, description="Whether to make alerts.")
    labels: Texts = Field({}, description="Labels by which Prometheus finds them.")
    namespace: Label = Field("", description="Another namespace for them.")
    disabled: list[str] = Field([])


class Dashboard(Section):
    """Of Grafana."""

    enabled: bool = Field(default=False, description="Whether to make Grafana's dashboard.")
    labels: Texts = Field({"grafana_dashboard": "1"})
    annotations: Texts = Field({}, description="Annotations, such as that of its folder.")
    namespace: Label = Field("", description="Another namespace for it.")


class Metrics(Section):
    """Who reads metrics."""

    scrape_annotations: bool = Field(default=True)
    service_monitor: ServiceMonitor = Field(
        ServiceMonitor(), description="For Prometheus' operator."
    )
    prometheus_rule: PrometheusRule = Field(
        PrometheusRule(), description="Alerts for Prometheus' operator."
    )
    dashboard: Dashboard = Field(Dashboard(), description="A dashboard for Grafana.")


class NetworkPolicy(Section):
    """Who may reach our pods."""

    enabled: bool = Field(default=False, description="Whether to make NetworkPolicies.")
    api_server_cidrs: list[Cidr] = Field([])
    metrics_from: list[NetworkPolicyPeer] = Field([])
