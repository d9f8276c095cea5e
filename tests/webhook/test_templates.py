"""The controller of templates on a simulated cluster."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kube.events import EventRecorder
from kube.objects import JsonObject
from sim.controllers import suite
from tests.fakes.api_server import ServerThread, serving
from tests.patience import eventually
from tests.webhook.viewing import a_translated_pod, create, get, names, templates_of, viewing
from webhook.templatecontent import expected_templates, is_genuine
from webhook.templateplan import Expected
from webhook.templates import TemplateController, TemplatePace
from webhook.view import ClusterView

TEMPLATES = "resourceclaimtemplates"
COMPONENT = "gpuslice-webhook"
PACE = TemplatePace(grace_s=60, resync_s=60, sync_wait_s=0.01, first_retry_s=0.01, max_retry_s=0.05)
BRIEF = replace(PACE, grace_s=0.05, resync_s=0.2)
LARGE = {"gpu": 1, "gpumem": 9000}


@dataclass
class Work:
    """A controller at work."""

    server: ServerThread
    view: ClusterView
    controller: TemplateController
    leading: bool = True
    told: list[str] = field(default_factory=list)

    def templates(self, namespace: str = "default") -> list[str]:
        """Return the templates that exist."""
        return names(self.server, TEMPLATES, namespace)

    def events(self, namespace: str = "default") -> list[tuple[str, str, str]]:
        """Return reason, kind and name of what the webhook said."""
        items, _ = self.server.run(self.server.server.api.list("events", namespace))
        return sorted(
            (each["reason"], each["involvedObject"]["kind"], each["involvedObject"]["name"])
            for each in items
            if each["source"]["component"] == COMPONENT
        )

    def writes(self, verb: str) -> int:
        """Return how many requests about templates there were."""
        return sum(
            each.verb == verb and TEMPLATES in each.path for each in self.server.server.requests
        )

    def delete(self, plural: str, name: str) -> None:
        """Delete an object at once."""
        self.server.run(self.server.server.api.delete(plural, name, "default", grace_period_s=0))


@contextmanager
def working(
    server: ServerThread, pace: TemplatePace = PACE, *, leading: bool = True, **options: Any
) -> Iterator[Work]:
    """Run a view and a controller."""
    client = server.client("webhook")
    events = EventRecorder(client, COMPONENT, "host")
    with viewing(server, wait=False) as view:
        work: list[Work] = []
        controller = TemplateController(
            client, view, events, leads=lambda: work[0].leading, pace=pace, **options
        )
        work.append(Work(server, view, controller, leading))
        controller.start()
        try:
            yield work[0]
        finally:
            controller.stop()
            events.close()
            client.close()


def test_a_template_is_made_for_a_pod_that_names_one() -> None:
    """What the server keeps of it is what its name stands for."""
    with serving() as server, working(server) as work:
        pod = a_translated_pod()
        create(server, "pods", pod)
        eventually(lambda: work.templates() == templates_of(pod))
        made = get(server, TEMPLATES, templates_of(pod)[0])
        assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "gpuslice"}
        assert made["metadata"]["annotations"] == {"gpuslice.io/template-format": "1"}
        assert is_genuine(made["metadata"]["name"], made["spec"]["spec"])
        create(server, "pods", a_translated_pod("second"))
        create(server, "pods", a_translated_pod("other", amounts=LARGE))
        eventually(lambda: len(work.templates()) == 2)
        assert work.writes("create") == 2
        assert work.events() == []


def test_a_pod_from_before_the_start_gets_its_template() -> None:
    """Nothing is remembered over a restart, and nothing has to be."""
    with serving() as server:
        pod = a_translated_pod()
        create(server, "pods", pod)
        with working(server) as work:
            eventually(lambda: work.templates() == templates_of(pod))
        with working(server) as again:
            eventually(lambda: again.view.templates("default"))
            again.controller.wake()
            create(server, "pods", a_translated_pod("other", amounts=LARGE))
            eventually(lambda: len(again.templates()) == 2)
            assert again.writes("create") == 2


def test_only_the_leader_writes() -> None:
    """One that becomes it looks at everything at once."""
    with serving() as server, working(server, leading=False) as work:
        pod = a_translated_pod()
        create(server, "pods", pod)
        eventually(lambda: work.view.pods("default"))
        work.controller.wake()
        assert work.templates() == []
        work.leading = True
        eventually(lambda: work.templates() == templates_of(pod))


def test_a_deleted_template_is_made_again_while_a_pod_needs_it() -> None:
    """Whoever deleted it."""
    with serving() as server, working(server) as work:
        pod = a_translated_pod()
        create(server, "pods", pod)
        (name,) = eventually(work.templates)
        eventually(lambda: work.view.templates("default"))
        work.delete(TEMPLATES, name)
        eventually(lambda: work.writes("create") == 2)
        assert work.templates() == [name]


def test_an_unused_template_goes_after_its_grace() -> None:
    """It stays for the next pod of a rolling update, and goes when none came."""
    with serving() as server:
        pod = a_translated_pod()
        create(server, "pods", pod)
        with working(server) as work:
            eventually(work.templates)
            work.delete("pods", "pod")
            eventually(lambda: not work.view.pods("default"))
            create(server, "pods", a_translated_pod("next"))
            eventually(lambda: work.view.pods("default"))
            work.delete("pods", "next")
            eventually(lambda: not work.view.pods("default"))
            assert work.templates() == templates_of(pod)
            assert work.writes("create") == 1
        with working(server, BRIEF) as work:
            eventually(lambda: not work.templates())
            assert work.writes("delete") == 1


def test_templates_of_others_stay() -> None:
    """One without our label, one with another name, and one with another content."""
    pod = a_translated_pod()
    expected = expected_templates(pod)
    assert isinstance(expected, dict)
    ((name, spec),) = expected.items()
    label = {"app.kubernetes.io/managed-by": "gpuslice"}
    with serving() as server:
        for named, labels, content in (
            (name, {}, spec),
            ("gpuslice-" + "0" * 40, label, spec),
            ("training", label, spec),
        ):
            metadata = {"name": named, "namespace": "default", "labels": labels}
            create(server, TEMPLATES, {"metadata": metadata, "spec": {"spec": content}})
        before = names(server, TEMPLATES)
        with working(server, BRIEF) as work:
            # One of ours comes and goes beside them.
            create(server, "pods", a_translated_pod("other", amounts=LARGE))
            eventually(lambda: len(work.templates()) == 4)
            work.delete("pods", "other")
            eventually(lambda: work.templates() == before)


def test_a_foreign_template_is_told_and_left_until_it_is_gone() -> None:
    """Events say so on each pod and once on the object; when it is deleted, ours is made."""
    pod = a_translated_pod()
    (name,) = templates_of(pod)
    foreign = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "mine"}}]}}
    with serving() as server:
        metadata = {"name": name, "namespace": "default"}
        create(server, TEMPLATES, {"metadata": metadata, "spec": {"spec": foreign}})
        with working(server) as work:
            create(server, "pods", pod)
            create(server, "pods", a_translated_pod("second"))
            expected = [
                ("TemplateForeign", "Pod", "pod"),
                ("TemplateForeign", "Pod", "second"),
                ("TemplateForeign", "ResourceClaimTemplate", name),
            ]
            eventually(lambda: work.events() == expected)
            for _ in range(3):
                work.controller.wake()
            create(server, "pods", a_translated_pod("other", amounts=LARGE))
            eventually(lambda: len(work.templates()) == 2)
            kept = get(server, TEMPLATES, name)
            assert kept["spec"]["spec"]["devices"]["requests"][0]["name"] == "a"
            items, _ = server.run(server.server.api.list("events", "default"))
            assert {each["count"] for each in items} == {1}
            work.delete(TEMPLATES, name)
            eventually(lambda: len(work.templates()) == 2)
            spec = get(server, TEMPLATES, name)["spec"]["spec"]
            assert is_genuine(name, spec)


def test_a_pod_with_a_spoilt_annotation_is_told_and_harms_nobody() -> None:
    """The others of its namespace get their templates."""
    bad, good = a_translated_pod("bad"), a_translated_pod("good", amounts=LARGE)
    bad["metadata"]["annotations"]["gpuslice.io/requests"] = '{"version": 1, "claims": 7}'
    with serving() as server, working(server) as work:
        create(server, "pods", bad)
        create(server, "pods", good)
        eventually(lambda: work.templates() == templates_of(good))
        eventually(lambda: work.events() == [("RequestsAnnotationInvalid", "Pod", "bad")])


@pytest.mark.parametrize("status", [403, 422])
def test_a_refused_template_is_told_and_tried_again(status: int) -> None:
    """A quota on objects may be raised."""
    with serving() as server, working(server) as work:
        pod = a_translated_pod()
        server.call(server.server.fail_next, 3, status, verb="create", path_part=TEMPLATES)
        create(server, "pods", pod)
        eventually(lambda: work.templates() == templates_of(pod))
        eventually(lambda: work.events() == [("TemplateNotMade", "Pod", "pod")])


def test_a_failing_server_is_outlasted_without_a_word_to_users() -> None:
    """They can do nothing about it."""
    with serving() as server, working(server) as work:
        pod = a_translated_pod()
        server.call(server.server.fail_next, 3, 500, verb="create", path_part=TEMPLATES)
        create(server, "pods", pod)
        eventually(lambda: work.templates() == templates_of(pod))
        assert work.events() == []


def test_two_leaders_for_a_moment_do_no_harm() -> None:
    """The second finds what the first has made."""
    with serving() as server, working(server) as one, working(server) as two:
        pods = [
            a_translated_pod(f"pod-{number}", amounts={"gpu": 1, "gpumem": 1000 + number})
            for number in range(20)
        ]
        for pod in pods:
            create(server, "pods", pod)
        eventually(lambda: len(one.templates()) == 20)
        assert one.templates() == sorted(name for pod in pods for name in templates_of(pod))
        assert one.events() == two.events() == []


def test_a_namespace_that_breaks_does_not_stop_the_others() -> None:
    """A mistake of ours in one is logged."""

    def broken(pod: JsonObject) -> Expected:
        # No JSON can be made of it.
        spoilt: Expected = {"gpuslice-x": {"devices": {1, 2}}}
        return spoilt if pod["metadata"]["namespace"] == "bad" else expected_templates(pod)

    with serving() as server, working(server, expected=broken) as work:
        create(server, "namespaces", {"metadata": {"name": "bad"}})
        create(server, "pods", a_translated_pod(namespace="bad"))
        pod = a_translated_pod()
        create(server, "pods", pod)
        eventually(lambda: work.templates() == templates_of(pod))


@contextmanager
def controlling(server: ServerThread) -> Iterator[None]:
    """Run the controllers of Kubernetes too."""

    def begin() -> Callable[[], object]:
        task = asyncio.get_running_loop().create_task(suite.run(server.server.api))
        return task.cancel

    cancel = server.call(begin)
    try:
        yield
    finally:
        server.call(cancel)


def test_a_hundred_pods_that_come_and_go_leave_nothing() -> None:
    """Neither claims nor templates are left, and each pod had a claim of its own."""
    seen: set[str] = set()
    with serving() as server, controlling(server), working(server, BRIEF) as work:
        for number in range(100):
            amounts = {"gpu": 1, "gpumem": 1000 + number % 7}
            create(server, "pods", a_translated_pod(f"pod-{number}", amounts=amounts))
            if number % 10 == 9:
                eventually(lambda: len(names(server, "resourceclaims")) == 10)
                seen |= set(names(server, "resourceclaims"))
                for old in range(number - 9, number + 1):
                    work.delete("pods", f"pod-{old}")
                eventually(lambda: not names(server, "resourceclaims"))
        eventually(lambda: not work.templates())
        assert len(seen) == 100
        assert work.events() == []
