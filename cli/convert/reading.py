"""Manifests as kubectl reads them, with the traps of YAML 1.1 shown.

In YAML 1.1 an unquoted `on`, `yes` or `y` is a boolean. Where Kubernetes wants texts (labels,
annotations, node selectors, environment) the API server then refuses the object; here such a word
stays the text that it looks like, and is warned about. Elsewhere it stays the boolean that it is.
Times and numbers of base 60 are texts, as they are to kubectl's parser.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from cli.convert.errors import ManifestError
from kube.objects import JsonObject

_TEXT_MAPS: Final = {"annotations", "labels", "matchLabels", "nodeSelector"}
_BOOLEAN: Final = re.compile(
    r"y|Y|yes|Yes|YES|on|On|ON|true|True|TRUE|n|N|no|No|NO|off|Off|OFF|false|False|FALSE"
)
_BOOLEAN_TAG: Final = "tag:yaml.org,2002:bool"
_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)")
_INTEGER_TAG: Final = "tag:yaml.org,2002:int"
_LEFT_OUT: Final = {_BOOLEAN_TAG, _INTEGER_TAG, "tag:yaml.org,2002:timestamp"}
_TRUE: Final = {"y", "yes", "on", "true"}


class _Word(str):
    """An unquoted word that YAML 1.1 takes for a boolean."""

    __slots__ = ()


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 - how the library is told
        first: [each for each in known if each[0] not in _LEFT_OUT]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _word(_loader: _Loader, node: yaml.ScalarNode) -> _Word:
    return _Word(node.value)


def _integer(_loader: _Loader, node: yaml.ScalarNode) -> int:
    text = node.value.replace("_", "")
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits.isdecimal() and digits.startswith("0")
    return int(text, 8) if octal else int(text, 0)


_Loader.add_implicit_resolver(_BOOLEAN_TAG, re.compile(rf"(?:{_BOOLEAN.pattern})$"), None)
_Loader.add_implicit_resolver(_INTEGER_TAG, re.compile(rf"(?:{_INTEGER.pattern})$"), None)
_Loader.add_constructor(_BOOLEAN_TAG, _word)
_Loader.add_constructor(_INTEGER_TAG, _integer)


def documents(text: str) -> Iterator[tuple[JsonObject, tuple[str, ...]]]:
    """Yield each object in *text* with warnings about how it is written.

    Raises `ManifestError` for what is no YAML, or no object.
    """
    try:
        # Its loader makes no objects but those of JSON.
        found = list(yaml.load_all(text, Loader=_Loader))
        for number, each in enumerate(found, start=1):
            if each is not None:
                yield _document(each, number)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = f"no YAML: {error}"
        raise ManifestError(message) from error


def _document(found: Any, number: int) -> tuple[JsonObject, tuple[str, ...]]:
    if not isinstance(found, dict):
        message = f"document {number} is no object"
        raise ManifestError(message)
    warnings: list[str] = []
    plain: JsonObject = _plain(found, "", warnings, texts=False)
    return plain, tuple(warnings)


def _plain(value: Any, path: str, warnings: list[str], *, texts: bool) -> Any:
    """Return *value* without the words of this module; *texts* tells that texts are wanted."""
    if isinstance(value, _Word):
        if not texts:
            return value.lower() in _TRUE
        warnings.append(f'{path}: unquoted `{value}` is a boolean to Kubernetes; write "{value}"')
        return str(value)
    if isinstance(value, list):
        return [
            _plain(item, f"{path}[{index}]", warnings, texts=False)
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    return {
        str(key): _plain(item, _below(path, key), warnings, texts=_wants_text(path, key))
        for key, item in value.items()
    }


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _wants_text(path: str, key: object) -> bool:
    parent = path.rpartition(".")[2]
    return parent in _TEXT_MAPS or (
        key == "value" and re.search(r"\benv\[\d+\]$", path) is not None
    )
