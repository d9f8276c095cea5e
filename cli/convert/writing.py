"""YAML that every parser reads as it is meant.

Writers of YAML leave texts unquoted that are none to other parsers: Go's takes `y` for a boolean
and `1e3` for a number.
"""

import re
from typing import Any, Final

import yaml

_WIDTH: Final = 100
_BOOLEAN: Final = re.compile(r"[yYnN]$")
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$")
_OCTAL: Final = re.compile(r"[-+]?0o[0-7_]+$")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the library's signature
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOLEAN, list("yYnN"))
for _pattern in (_NUMBER, _OCTAL):
    _Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _pattern, list("-+.0123456789"))


def yaml_of(item: Any) -> str:
    """Return *item* as one document of YAML, without the dashes before it."""
    text: str = yaml.dump(item, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
    return text
