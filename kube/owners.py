"""With what an object goes that a program made itself: its Service.

What is made at run time is in no chart, so an uninstalled release would leave it behind. A Service
is the one object of a program that is there as long as the release is and in the same namespace,
which owners have to be; once it is gone Kubernetes deletes what names it as an owner. Where the
Service cannot be read the object stays by itself: it must not fail for that.

While a release is uninstalled its programs still run for some seconds, and make what has just been
deleted again. So what had an owner gets the same one (`kept`), and is deleted once more.
"""

import json
from collections.abc import Callable

import structlog

from kube.client import Client
from kube.errors import ForbiddenError, NotFoundError
from kube.objects import JsonObject
from kube.paths import resource

log = structlog.get_logger(__name__)

Owners = Callable[[], JsonObject]
"""Returns what metadata has to say of owners: nothing, or `ownerReferences`; raises `KubeError`."""


def nobody() -> JsonObject:
    """Return that there is no owner."""
    return {}


def kept(metadata: JsonObject) -> JsonObject:
    """Return what the *metadata* of an object say of its owners."""
    found = metadata.get("ownerReferences")
    return {"ownerReferences": found} if found else {}


def service_owner(client: Client, *, namespace: str, name: str) -> Owners:
    """Return what asks for the Service *name* whenever an object is made."""

    def owners() -> JsonObject:
        path = resource("v1", "services", namespace=namespace, name=name)
        try:
            uid = json.loads(client.get(path))["metadata"]["uid"]
        except (NotFoundError, ForbiddenError) as error:
            log.info("service not read, what is made here has no owner", error=str(error))
            return {}
        owner = {"apiVersion": "v1", "kind": "Service", "name": name, "uid": uid}
        return {"ownerReferences": [owner]}

    return owners
