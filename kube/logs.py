"""How programs log: one JSON object a line on stderr, or text for a person.

Records of libraries that use the standard library's logging come out in the same shape. Secrets
are cut from every record by the names of their keys and by the look of their values, whoever
wrote it.

Import this before anything else that logs where memory counts: structlog loads `rich` for
tracebacks in colours wherever it is installed, which nobody draws here and which takes 5 MB.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

if "structlog" not in sys.modules and "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog

    del sys.modules["rich"]
else:
    import structlog

from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import ExceptionRenderer, JSONRenderer, TimeStamper
from structlog.stdlib import ProcessorFormatter, add_log_level, add_logger_name
from structlog.tracebacks import ExceptionDictTransformer
from structlog.types import Processor

_SECRET_KEY: Final = re.compile(r"token|authorization|password|secret|private_?key", re.IGNORECASE)
_SECRET_VALUE: Final = re.compile(r"(?i:bearer )\S+|\beyJ[\w-]+\.[\w-]+\.[\w-]*")
_HIDDEN: Final = "(hidden)"
_CHATTY: Final = ("urllib3", "kubernetes")


def configure(
    level: str, *, json: bool, stream: TextIO | None = None, for_good: bool = True
) -> None:
    """Log from *level* (a name such as `info`) on, as *json* or as text, to *stream* or stderr.

    With *for_good* loggers stay as they were when first used, which makes them faster.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_log_level,
        add_logger_name,
        TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]
    structlog.configure(
        processors=[*shared, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=for_good,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[ProcessorFormatter.remove_processors_meta, *_renderers(json=json)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(threshold, logging.ERROR))


def _renderers(*, json: bool) -> list[Processor]:
    if json:
        # Local variables hold tokens.
        return [ExceptionRenderer(ExceptionDictTransformer(show_locals=False)), JSONRenderer()]
    colours = sys.stderr.isatty()
    return [ConsoleRenderer(colors=colours, exception_formatter=plain_traceback)]


def hide_secrets(
    _logger: Any, _method: str, record: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace what looks like a secret in *record*."""
    for key, value in record.items():
        if _SECRET_KEY.search(key):
            record[key] = _HIDDEN
        elif isinstance(value, str):
            record[key] = _SECRET_VALUE.sub(_HIDDEN, value)
    return record
