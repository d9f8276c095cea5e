"""The HTTP door: paths, headers, bodies and streams around the registry.

Answers differ from stored objects where the real server's do: the items of a list carry no
`kind`, errors are `Status` objects, dropped fields come back as `Warning` headers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import structlog
import yaml
from aiohttp import web

from sim.apiserver import discovery, openapi, paths
from sim.apiserver.access import split_path
from sim.apiserver.errors import NoPageError, StatusError, bad_request, generic
from sim.apiserver.grants import Grants
from sim.apiserver.options import USER, flag, listing_of, write_of
from sim.apiserver.patches import APPLY_PATCH
from sim.apiserver.streaming import Streams
from sim.apiserver.tables import metadata_list, table, wants_metadata, wants_table
from sim.apiserver.warnings import header, told
from sim.apiserver.writes import Writes
from sim.apiserver.zeros import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.apiserver.access import Access
    from sim.apiserver.faults import Faults
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.registry import Registry
    from sim.apiserver.requests import Outcome

log = structlog.get_logger(__name__)

_NO_METHOD = "the server does not allow this method on the requested resource"
_YAML_TYPES = {"application/yaml", APPLY_PATCH}


class HttpApi:
    """All handlers of one server."""

    def __init__(
        self, registry: Registry, access: Access, faults: Faults, bookmark_interval_s: float
    ) -> None:
        self._registry = registry
        self.grants = Grants()
        self._writes = Writes(registry)
        self._access = access
        self._faults = faults
        self.streams = Streams(registry, bookmark_interval_s)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request and note it."""
        user, verb = "", request.method.lower()
        token, path = split_path(request.path)
        try:
            user = self._access.user_of(request.headers.get("Authorization", ""), token)
            request[USER] = user
            segments = [segment for segment in path.split("/") if segment]
            fixed = self._fixed(segments)
            target = (
                None if fixed is not None else paths.parse(segments, self._registry.version.number)
            )
            if target is not None:
                verb = target.verb(request.method, watch=flag(request, "watch"))
            self._faults.strike(verb, path)
            if target is None:
                response: web.StreamResponse = fixed or web.Response()
            else:
                note = self._access.noter(user, verb, path)
                response = await self._served(request, target, verb, note)
                if verb == "watch":
                    return response
        except NoPageError as error:
            response = web.Response(text=f"{error.message}\n", status=error.code)
        except StatusError as error:
            response = _failure(error)
        except Exception:
            log.exception("request failed", verb=verb, path=path)
            response = _failure(StatusError(500, "InternalError", "internal error"))
        self._access.note(user, verb, path, response.status)
        return response

    def _fixed(self, segments: list[str]) -> web.Response | None:
        if segments == ["version"]:
            return _json(discovery.version_info(self._registry.version.git_version))
        if segments and segments[0] in {"healthz", "readyz", "livez"}:
            return web.Response(text="ok")
        minor = self._registry.version.number
        found = discovery.document(segments, minor) or openapi.document(segments, minor)
        return None if found is None else _json(found)

    async def _served(
        self,
        request: web.Request,
        target: paths.Target,
        verb: str,
        note: Callable[[int], None],
    ) -> web.StreamResponse:
        plural, namespace = target.resource.plural, target.namespace
        if verb != "create" and not target.resource.kept:
            raise generic(405, "MethodNotAllowed", _NO_METHOD)
        match verb:
            case "get":
                return self._get(request, target)
            case "list":
                return self._list(request, target)
            case "watch":
                return await self.streams.serve(request, target, listing_of(request), note)
            case "delete":
                return _deleted(target, await self._delete(request, target))
            case "deletecollection":
                write = write_of(request, target, await _options(request))
                items = await self._writes.delete_collection(
                    plural, namespace, listing_of(request), write
                )
                metadata = {"resourceVersion": self._registry.resource_version}
                found = [_bare(shown(plural, item)) for item in items]
                return _json({**_list_head(target), "metadata": metadata, "items": found})
            case _:
                return await self._write(request, target, verb)

    def _get(self, request: web.Request, target: paths.Target) -> web.Response:
        plural = target.resource.plural
        found = self._registry.get(plural, target.name, target.namespace)
        if wants_table(request.headers.get("Accept", "")):
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            return _json(table(plural, [found], version))
        return _json(shown(plural, found))

    def _list(self, request: web.Request, target: paths.Target) -> web.Response:
        page = self._registry.list(target.resource.plural, target.namespace, listing_of(request))
        metadata: JsonObject = {"resourceVersion": page.resource_version}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        if wants_table(request.headers.get("Accept", "")):
            return _json(table(target.resource.plural, page.items, metadata))
        if wants_metadata(request.headers.get("Accept", "")):
            return _json(metadata_list(page.items, metadata))
        items = [_bare(shown(target.resource.plural, item)) for item in page.items]
        return _json({**_list_head(target), "metadata": metadata, "items": items})

    async def _delete(self, request: web.Request, target: paths.Target) -> Outcome:
        write = write_of(request, target, await _options(request))
        return await self._writes.delete(
            target.resource.plural, target.name, target.namespace, write
        )

    async def _write(self, request: web.Request, target: paths.Target, verb: str) -> web.Response:
        plural, write = target.resource.plural, write_of(request, target, {})
        body = await _body(request)
        if not target.resource.kept:
            return _json(self.grants.answered(body, self._registry.version.number), status=201)
        if target.subresource == "binding":
            await self._writes.bind(target.name, target.namespace or "", body, write)
            done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            return _json({**done, "code": 201}, status=201)
        match verb:
            case "create" if not target.name:
                outcome = await self._writes.create(plural, body, target.namespace, write)
            case "update" if target.name:
                outcome = await self._writes.update(plural, _named(body, target), write)
            case "patch" if target.name:
                outcome = await self._writes.patch(
                    plural, target.name, target.namespace, body, write
                )
            case _:
                raise generic(405, "MethodNotAllowed", _NO_METHOD)
        found = shown(plural, outcome.obj)
        return _json(found, status=201 if outcome.created else 200, warnings=outcome.warnings)


def _json(
    content: JsonObject, *, status: int = 200, warnings: tuple[str, ...] = ()
) -> web.Response:
    response = web.Response(
        body=json.dumps(content, separators=(",", ":")).encode(),
        status=status,
        content_type="application/json",
    )
    for warning in told(warnings):
        response.headers.add("Warning", header(warning))
    return response


def _failure(error: StatusError) -> web.Response:
    response = _json(error.status(), status=error.code, warnings=error.warnings)
    if error.code == 429:
        response.headers["Retry-After"] = "1"
    return response


def _deleted(target: paths.Target, outcome: Outcome) -> web.Response:
    resource = target.resource
    if resource.delete_returns_object or not outcome.removed:
        return _json(shown(resource.plural, outcome.obj), warnings=outcome.warnings)
    details = {"name": target.name, "kind": resource.plural, "uid": outcome.obj["metadata"]["uid"]}
    if resource.group:
        details["group"] = resource.group
    return _json(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        },
        warnings=outcome.warnings,
    )


def _list_head(target: paths.Target) -> JsonObject:
    resource = target.resource
    return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": {}}


def _bare(item: JsonObject) -> JsonObject:
    return {key: value for key, value in item.items() if key not in {"kind", "apiVersion"}}


async def _options(request: web.Request) -> JsonObject:
    options: JsonObject = (await _body(request)) if request.can_read_body else {}
    return options


async def _body(request: web.Request) -> Any:
    raw = await request.read()
    if not raw:
        return {}
    try:
        return json.loads(raw)
    except ValueError as error:
        if request.content_type not in _YAML_TYPES:
            message = f"the body is no JSON: {error}"
            raise bad_request(message) from error
    try:
        return yaml.safe_load(raw)
    except yaml.YAMLError as error:
        message = f"the body is no YAML: {error}"
        raise bad_request(message) from error


def _named(body: Any, target: paths.Target) -> JsonObject:
    """Return *body* with the name of the path; 400 when it says another one."""
    if not isinstance(body, dict):
        raise bad_request("the body is no JSON object")
    metadata = dict(body.get("metadata") or {})
    if metadata.get("name", target.name) != target.name:
        message = (
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({target.name})"
        )
        raise bad_request(message)
    metadata["name"] = target.name
    if target.namespace:
        if metadata.get("namespace", target.namespace) != target.namespace:
            raise bad_request("the namespace of the object does not match the namespace on the URL")
        metadata["namespace"] = target.namespace
    return {**body, "metadata": metadata}
