"""What every section of the values is: names in camelCase, and nothing that is not known.

A key is described where it is read first: by the comment above it in values.yaml, or here where
that says nothing.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Section(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", validate_by_name=True)


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"

Label = Annotated[str, Field(pattern=f"^({_LABEL})?$", max_length=63)]
"""A DNS label, such as the name of a namespace or a Service, or nothing."""
NamePart = Annotated[str, Field(pattern=f"^({_LABEL})?$", max_length=40)]
"""What names of objects begin with, or nothing; templates add to it."""
ObjectName = Annotated[str, Field(pattern=rf"^({_LABEL}(\.{_LABEL})*)?$", max_length=253)]
"""The name of an object, or nothing."""
Directory = Annotated[str, Field(pattern="^/")]
Texts = dict[str, str]
Port = Annotated[int, Field(ge=1, le=65535)]
Cidr = Annotated[str, Field(pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}$")]
Duration = Annotated[str, Field(pattern=r"^([0-9]+(ms|s|m|h))+$")]
"""As Prometheus and Go write it, such as 30s."""
