"""Asks an API server what it would keep of an object, by a create that is never carried out.

A server drops the fields of features that are switched off without a word (kubernetes:
pkg/registry, `dropDisabledFields`), and gates can be switched, so neither its version nor the kinds
that it serves tell what it can do. A dry run passes admission and validation and is answered with
the object as it would be stored; nobody ever sees it. It takes the right to create the kind.
"""

import json
from typing import Any, Final

from kube.client import Client
from kube.errors import NotFoundError, NotServedError
from kube.objects import JsonObject

_DRY_RUN: Final = {"dryRun": "All"}


def would_keep(client: Client, path: str, item: JsonObject) -> Any:
    """Return what the server would store of *item* in the collection at *path*.

    `NotServedError` where it has no such kind, another `KubeError` where it does not say, and
    `ValueError` where it answers with no JSON.
    """
    try:
        return json.loads(client.create(path, item, _DRY_RUN))
    except NotFoundError as error:
        if not error.is_about_path:
            raise
        message = f"{item['kind']} of {item['apiVersion']} is not served by this API server"
        raise NotServedError(message) from error
