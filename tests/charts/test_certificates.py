"""Where the webhook's certificate is from, and that each way has the rights it needs only."""

from typing import Any

import pytest

from tests.charts.rendering import NAMESPACE, Object, RefusedError, container, of_kind, one, render
from tests.charts.webhooks import configurations, hooks, rights, settings_of

NAME = "gpuslice-webhook"
SECRET = "gpuslice-webhook-tls"  # noqa: S105 - the name of one
BUNDLE = "QUJD"
GIVEN = {"mode": "secret", "secret": {"name": "mine"}}
WITH_BUNDLE = {"mode": "secret", "secret": {"name": "mine", "caBundle": BUNDLE}}


def rendered(tls: dict[str, Any], helm: int = 4) -> list[Object]:
    """Return the objects for values of `webhook.tls`."""
    return render({"mode": "dra", "webhook": {"tls": tls}}, helm=helm)


def may(objects: list[Object], resource: str) -> set[tuple[str, str]]:
    """Return (name, verb) of what the webhook may do with a resource."""
    roles = one(objects, "ClusterRole", NAME), one(objects, "Role", NAME)
    return {
        (name, verb) for role in roles for found, name, verb in rights(role) if found == resource
    }


CONFIGURATIONS = {("gpuslice", verb) for verb in ("get", "list", "watch", "patch")}


@pytest.mark.parametrize("helm", [3, 4])
@pytest.mark.parametrize(
    ("tls", "secrets", "configured"),
    [
        ({}, {(SECRET, "get"), (SECRET, "update"), ("", "create")}, CONFIGURATIONS),
        ({"mode": "cert-manager"}, set(), set()),
        (GIVEN, set(), CONFIGURATIONS),
        (WITH_BUNDLE, set(), set()),
    ],
    ids=["self-made", "cert-manager", "secret", "secret-with-bundle"],
)
def test_rights_are_those_of_the_way(
    helm: int, tls: dict[str, Any], secrets: set[Any], configured: set[Any]
) -> None:
    """Secrets only where it makes one, configurations only where it writes into them."""
    objects = rendered(tls, helm)
    assert may(objects, "secrets") == secrets
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        assert may(objects, plural) == configured
    assert settings_of(objects).configurations == (("gpuslice",) if configured else ())


def test_by_default_the_program_makes_it() -> None:
    """Nothing of it is in the chart: no Secret, and no authority that an upgrade would undo."""
    objects = rendered({})
    assert settings_of(objects).tls == "self-made"
    assert settings_of(objects).tls_secret == SECRET
    assert not of_kind(objects, "Secret")
    assert all("caBundle" not in each["clientConfig"] for each in hooks(objects).values())
    assert not notes(objects)
    assert not of_kind(objects, "Certificate")


@pytest.mark.parametrize(
    ("tls", "secret"), [({"mode": "cert-manager"}, SECRET), (GIVEN, "mine"), (WITH_BUNDLE, "mine")]
)
def test_a_secret_is_mounted_where_the_program_reads_it(tls: dict[str, Any], secret: str) -> None:
    """As a folder, so that kubelet brings a renewed one."""
    objects = rendered(tls)
    workload = one(objects, "Deployment", NAME)
    (volume,) = workload["spec"]["template"]["spec"]["volumes"]
    assert volume["secret"] == {"secretName": secret}
    (mount,) = container(workload, "webhook")["volumeMounts"]
    assert (mount["name"], mount["readOnly"]) == (volume["name"], True)
    assert "subPath" not in mount
    settings = settings_of(objects)
    assert settings.tls == "files"
    files = settings.tls_cert_file, settings.tls_key_file, settings.tls_ca_file
    assert [str(each) for each in files] == [
        f"{mount['mountPath']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")
    ]


def test_an_authority_that_is_given_stands_in_the_configurations() -> None:
    """Otherwise the program writes the one of the Secret."""
    for hook in hooks(rendered(WITH_BUNDLE)).values():
        assert hook["clientConfig"]["caBundle"] == BUNDLE
    for hook in hooks(rendered(GIVEN)).values():
        assert "caBundle" not in hook["clientConfig"]


def test_a_secret_has_to_be_named() -> None:
    """The words name the value."""
    with pytest.raises(RefusedError, match=r"webhook\.tls\.secret\.name"):
        rendered({"mode": "secret"})


def notes(objects: list[Object]) -> list[str]:
    """Return from which certificate cert-manager writes authorities into the configurations."""
    key = "cert-manager.io/inject-ca-from"
    annotations = [each["metadata"].get("annotations") or {} for each in configurations(objects)]
    return [each[key] for each in annotations if key in each]


def test_cert_manager_makes_it_below_an_authority_of_its_own() -> None:
    """A renewed certificate is trusted before the API server hears of anything."""
    objects = rendered({"mode": "cert-manager"})
    serving = one(objects, "Certificate", NAME)["spec"]
    assert notes(objects) == [f"{NAMESPACE}/{NAME}"] * 2
    assert serving["secretName"] == SECRET
    assert set(serving["dnsNames"]) == set(settings_of(objects).hosts)
    issuer = one(objects, "Issuer", serving["issuerRef"]["name"])["spec"]
    (authority,) = [
        each["spec"] for each in of_kind(objects, "Certificate") if each["spec"].get("isCA")
    ]
    assert issuer == {"ca": {"secretName": authority["secretName"]}}
    root = one(objects, "Issuer", authority["issuerRef"]["name"])["spec"]
    assert root == {"selfSigned": {}}


@pytest.mark.parametrize(
    ("kind", "expected"), [("issuer", "Issuer"), ("clusterissuer", "ClusterIssuer")]
)
def test_an_issuer_of_the_administrator_is_asked(kind: str, expected: str) -> None:
    """None of ours is made then, and it has to be named."""
    manager = {"issuerType": kind, "issuerName": "company"}
    objects = rendered({"mode": "cert-manager", "certManager": manager})
    assert not of_kind(objects, "Issuer")
    (certificate,) = of_kind(objects, "Certificate")
    reference = certificate["spec"]["issuerRef"]
    assert reference == {"group": "cert-manager.io", "kind": expected, "name": "company"}
    with pytest.raises(RefusedError, match=r"webhook\.tls\.certManager\.issuerName"):
        rendered({"mode": "cert-manager", "certManager": {"issuerType": kind}})


def test_notes_of_the_administrator_stay_beside_cert_managers() -> None:
    """Annotations of all objects are written once."""
    values = {
        "commonAnnotations": {"a": "b"},
        "webhook": {"tls": {"mode": "cert-manager"}},
    }
    for each in configurations(render(values)):
        assert each["metadata"]["annotations"] == {
            "a": "b",
            "cert-manager.io/inject-ca-from": f"{NAMESPACE}/{NAME}",
        }


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://gate.example.com:8443/", {"dnsNames": "gate.example.com"}),
        ("https://10.1.2.3:31998", {"ipAddresses": "10.1.2.3"}),
        ("https://[fd00::1]:31998/hooks", {"ipAddresses": "fd00::1"}),
    ],
)
def test_by_a_url_the_api_server_asks_outside_of_the_cluster(url: str, name: Any) -> None:
    """The program is told, whose certificate is for it, and cert-manager's is as well."""
    values: dict[str, Any] = {"mode": "dra", "webhook": {"customUrl": url}}
    objects = render(values)
    for each, hook in hooks(objects).items():
        path = "/webhook" if each == "pods.gpuslice.io" else "/validate"
        assert hook["clientConfig"] == {"url": url.rstrip("/") + path}
    settings = settings_of(objects)
    assert settings.custom_url == url
    ((kind, host),) = name.items()
    assert settings.hosts[-1] == host
    values["webhook"]["tls"] = {"mode": "cert-manager"}
    spec = one(render(values), "Certificate", NAME)["spec"]
    assert host in spec[kind]
