"""Takes from a translated pod what only the webhook and the API server need."""

from typing import Final

from hami.containers import all_containers
from kube.objects import JsonObject
from webhook.requestannotation import ANNOTATION, LABEL

_RECORD: Final = (("annotations", ANNOTATION), ("labels", LABEL))


def drop_record(new: JsonObject, old: JsonObject) -> None:
    """Remove the record of what was asked, by which a controller makes templates."""
    before = old.get("metadata") or {}
    metadata = new.get("metadata") or {}
    for section, key in _RECORD:
        held = metadata.get(section) or {}
        if key in held and key not in (before.get(section) or {}):
            del held[key]
            if not held and not before.get(section):
                del metadata[section]
    if not metadata and "metadata" not in old:
        new.pop("metadata", None)


def drop_emptied(new: JsonObject, old: JsonObject) -> None:
    """Remove maps of resources that the translation has emptied."""
    for container, before in zip(all_containers(new), all_containers(old), strict=True):
        resources = container.raw.get("resources") or {}
        for section in ("limits", "requests"):
            had = (before.raw.get("resources") or {}).get(section)
            if had and not resources.get(section):
                del resources[section]
        if not resources and before.raw.get("resources"):
            del container.raw["resources"]
