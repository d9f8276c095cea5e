"""Who may reach the extender by what the chart renders, and how both sides know one another."""

import base64

import pytest

from tests.charts import schedulers
from tests.charts.rendering import (
    NAMESPACE,
    Object,
    RefusedError,
    merged,
    nested,
    of_kind,
    one,
    render,
)
from tests.charts.schedulers import ALONE, HAMI, NAME


def test_alone_the_extender_is_reached_by_its_service() -> None:
    """kube-scheduler runs elsewhere, and nothing tells replicas apart."""
    objects = render(ALONE)
    settings = schedulers.settings(objects)
    assert (settings.address, settings.leader_elect) == ("0.0.0.0", False)  # noqa: S104
    deployment = one(objects, "Deployment", NAME)
    assert [each["name"] for each in deployment["spec"]["template"]["spec"]["containers"]] == [
        "extender"
    ]
    ports = {each["name"]: each for each in one(objects, "Service", NAME)["spec"]["ports"]}
    assert (
        schedulers.asked(objects)["urlPrefix"]
        == f"http://{NAME}.{NAMESPACE}.svc:{ports['extender']['port']}"
    )
    assert not [each for each in objects if "kube-scheduler" in each["metadata"]["name"]]


def test_alone_the_extender_is_open_to_whom_a_policy_names() -> None:
    """Callers are not asked who they are, so nobody is let in without a word."""
    policy = merged(ALONE, nested("networkPolicy.enabled", True))
    with pytest.raises(RefusedError, match=r"networkPolicy\.apiServerCidrs"):
        render(policy)
    cidrs = nested("networkPolicy.apiServerCidrs", ["192.0.2.0/24"])
    rules = one(render(merged(policy, cidrs)), "NetworkPolicy", NAME)["spec"]["ingress"]
    (rule,) = [each for each in rules if each["ports"][0]["port"] == 9444]
    assert rule["from"] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]


def test_the_policy_lets_in_agents_and_who_reads_metrics() -> None:
    """And nobody to the port where pods are bound, which is loopback's."""
    policy = merged(HAMI, nested("networkPolicy.enabled", True))
    rules = one(render(policy), "NetworkPolicy", NAME)["spec"]["ingress"]
    ports = {each["ports"][0]["port"]: each.get("from") for each in rules}
    assert ports.keys() == {9395, 9445}
    (peer,) = ports[9445]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "node-agent"
    others = merged(policy, nested("scheduler.refit.accounts", ["system:serviceaccount:a:b"]))
    rules = one(render(others), "NetworkPolicy", NAME)["spec"]["ingress"]
    assert "from" not in next(each for each in rules if each["ports"][0]["port"] == 9445)


def test_agents_may_ask_for_other_devices() -> None:
    """The extender knows their account, and others that are named."""
    assert schedulers.settings(render(HAMI)).refit_accounts == (
        f"system:serviceaccount:{NAMESPACE}:gpuslice-node-agent",
    )
    more = merged(HAMI, nested("scheduler.refit.accounts", ["system:serviceaccount:a:b"]))
    assert schedulers.settings(render(more)).refit_accounts[1:] == ("system:serviceaccount:a:b",)


def test_without_refit_there_is_no_certificate_and_no_review_of_tokens() -> None:
    """Nor a port of it."""
    objects = render(merged(HAMI, nested("scheduler.refit.enabled", False)))
    assert schedulers.settings(objects).refit_accounts == ()
    assert not of_kind(objects, "Secret")
    assert "tokenreviews" not in str(one(objects, "ClusterRole", "gpuslice-extender"))
    assert [each["name"] for each in one(objects, "Service", NAME)["spec"]["ports"]] == ["metrics"]
    assert "refit" not in str(one(objects, "DaemonSet", "gpuslice-node-agent")["spec"])


@pytest.mark.parametrize("helm", [3, 4])
def test_the_chart_makes_a_certificate_for_the_service(helm: int) -> None:
    """Agents get the authority alone: nodes may read what their pods mount."""
    x509 = pytest.importorskip("cryptography.x509")
    objects = render(HAMI, helm=helm)
    own, authority = (one(objects, "Secret", f"{NAME}-{kind}")["data"] for kind in ("tls", "ca"))
    assert authority.keys() == {"ca.crt"}
    assert authority["ca.crt"] == own["ca.crt"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(own["tls.crt"]))
    issuer = x509.load_pem_x509_certificate(base64.b64decode(own["ca.crt"]))
    certificate.verify_directly_issued_by(issuer)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert f"{NAME}.{NAMESPACE}.svc" in names.get_values_for_type(x509.DNSName)


def _mounted(objects: list[Object]) -> tuple[str, str]:
    """Return the Secrets that the extender and the agents mount."""
    spec = one(objects, "Deployment", NAME)["spec"]["template"]["spec"]
    (own,) = [each for each in spec["volumes"] if each["name"] == "refit"]
    agent = one(objects, "DaemonSet", "gpuslice-node-agent")["spec"]["template"]["spec"]
    (its,) = [each for each in agent["volumes"] if each["name"] == "refit"]
    assert [each["key"] for each in its["secret"]["items"]] == ["ca.crt"]
    return own["secret"]["secretName"], its["secret"]["secretName"]


def test_cert_manager_makes_both_secrets() -> None:
    """By an authority of the chart, or an issuer that is named."""
    tls = nested("scheduler.refit.tls.mode", "cert-manager")
    objects = render(merged(HAMI, tls))
    made = {each["spec"]["secretName"] for each in of_kind(objects, "Certificate")}
    assert set(_mounted(objects)) <= made
    assert not of_kind(objects, "Secret")
    foreign = nested("scheduler.refit.tls.certManager", {"issuerType": "clusterissuer"})
    with pytest.raises(RefusedError, match="issuerName"):
        render(merged(HAMI, merged(tls, foreign)))
    named = merged(foreign, nested("scheduler.refit.tls.certManager.issuerName", "mine"))
    objects = render(merged(HAMI, merged(tls, named)))
    issuers = [each["spec"]["issuerRef"] for each in of_kind(objects, "Certificate")]
    assert [(each["kind"], each["name"]) for each in issuers] == [("ClusterIssuer", "mine")] * 2
    assert not of_kind(objects, "Issuer")


def test_a_secret_of_yours_is_mounted() -> None:
    """By its name, without which nothing is rendered."""
    tls = nested("scheduler.refit.tls.mode", "secret")
    with pytest.raises(RefusedError, match=r"scheduler\.refit\.tls\.secret\.name"):
        render(merged(HAMI, tls))
    objects = render(merged(HAMI, merged(tls, nested("scheduler.refit.tls.secret.name", "mine"))))
    assert _mounted(objects) == ("mine", "mine")
    assert not of_kind(objects, "Secret")
