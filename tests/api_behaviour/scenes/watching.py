"""Watches tell what happens after a version, and say so when that is too long ago."""

# ruff: noqa: D401 - scenes say what happens, as tests do

import json
from typing import Any

from tests.api_behaviour.scenes.writing import config
from tests.api_behaviour.server import Server

_TIMEOUT_S = 30.0


def _events(api: Server, count: int, **params: str) -> list[Any]:
    """Return the first *count* events of a watch, or all when it ends before."""
    events: list[Any] = []
    with api.client.watch(api.at("configmaps"), params, timeout_s=_TIMEOUT_S) as watch:
        for line in watch:
            events.append(json.loads(line))
            if len(events) == count:
                break
    return events


def _brief(events: list[Any]) -> list[Any]:
    """Return types, names and labels, which say what happened."""
    return [
        (
            each["type"],
            each["object"]["metadata"].get("name"),
            each["object"]["metadata"].get("labels", {}),
        )
        for each in events
    ]


def history(api: Server) -> None:
    """A watch from a version tells everything that has happened since, in order."""
    path = api.at("configmaps")
    first = api.send("", "POST", path, config(labels={"mine": "a"}))["metadata"]
    api.send("", "PATCH", f"{path}/one", {"data": {"key": "new"}}, headers=_MERGE)
    api.send("", "POST", path, config("two", labels={"mine": "a"}))
    api.send("", "DELETE", f"{path}/one")
    since = {"resourceVersion": first["resourceVersion"]}
    events = _events(api, 3, labelSelector="mine", **since)
    api.tell("events", events)
    rising = [int(each["object"]["metadata"]["resourceVersion"]) for each in events]
    api.tell("versions rise", rising == sorted(set(rising)))


_MERGE = {"Content-Type": "application/merge-patch+json"}


def selection(api: Server) -> None:
    """What stops being selected is deleted for the watcher, what starts to be is added."""
    path = api.at("configmaps")
    made = api.send("", "POST", path, config(labels={"mine": "a"}))["metadata"]
    for value in ("b", "a"):
        patch = {"metadata": {"labels": {"mine": value}}}
        api.send("", "PATCH", f"{path}/one", patch, headers=_MERGE)
    api.send("", "POST", path, config("other", labels={"mine": "b"}))
    api.send("", "DELETE", f"{path}/one")
    version = made["resourceVersion"]
    api.tell("events", _brief(_events(api, 3, labelSelector="mine=a", resourceVersion=version)))


def from_now(api: Server) -> None:
    """Without a version, or from 0, a watch begins with what is there."""
    api.send("", "POST", api.at("configmaps"), config(labels={"mine": "a"}))
    for label, params in (("no version", {}), ("zero", {"resourceVersion": "0"})):
        api.tell(label, _brief(_events(api, 1, labelSelector="mine", **params)))


def initial_events(api: Server) -> None:
    """A watch can begin with a list, whose end a bookmark marks."""
    for name in ("one", "two"):
        api.send("", "POST", api.at("configmaps"), config(name, labels={"mine": "a"}))
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    params = {**asked, "allowWatchBookmarks": "true", "labelSelector": "mine"}
    events = _events(api, 3, **params)
    api.tell("events", _brief(events[:2]))
    api.tell("bookmark", events[2])
    path = api.at("configmaps")
    api.get("no match named", path, {"watch": "true", "sendInitialEvents": "true"})
    api.get("no watch", path, {"sendInitialEvents": "true"})
    unmarked = {**asked, "watch": "true", "timeoutSeconds": "1"}
    api.get("another match", path, {**unmarked, "resourceVersionMatch": "Exact"})


def time_out(api: Server) -> None:
    """A watch ends by itself after `timeoutSeconds`, with a bookmark for who takes them."""
    api.send("", "POST", api.at("configmaps"), config(labels={"mine": "a"}))
    told = _events(api, 9, labelSelector="mine", timeoutSeconds="1")
    api.tell("events", _brief(told))
    marked = {"labelSelector": "mine", "timeoutSeconds": "2", "allowWatchBookmarks": "true"}
    last = _events(api, 9, **marked)[-1]
    api.tell("last event", last)
    version = int(last["object"]["metadata"]["resourceVersion"])
    api.tell(
        "it is a new version", version >= int(told[0]["object"]["metadata"]["resourceVersion"])
    )
    api.get("no number", api.at("configmaps"), {"watch": "true", "timeoutSeconds": "soon"})


def one_object(api: Server) -> None:
    """A single object can be watched by its name."""
    path = api.at("configmaps")
    first = api.send("", "POST", path, config())["metadata"]["resourceVersion"]
    api.send("", "POST", path, config("two"))
    api.send("", "DELETE", f"{path}/one")
    by_field = {"fieldSelector": "metadata.name=one", "resourceVersion": first}
    api.tell("by field", _brief(_events(api, 1, **by_field)))


def wrong_versions(api: Server) -> None:
    """A version that is no number is a 400, and one from the beginning of time is too old."""
    path = api.at("configmaps")
    api.get("no number", path, {"watch": "true", "resourceVersion": "x", "timeoutSeconds": "1"})
    api.get("list, no number", path, {"resourceVersion": "x"})
    api.get("list from 0", path, {"resourceVersion": "0", "labelSelector": "nothing"})
    ahead = {"resourceVersion": "999999999999", "timeoutSeconds": "1"}
    api.get("list of the future", path, ahead)
    match = {"resourceVersionMatch": "Exact"}
    api.get("match without version", path, match)
    api.get("match of an unknown sort", path, {"resourceVersion": "1", "resourceVersionMatch": "x"})
