"""`kafka.*` properties as kclient's own configuration: what Java's clients write otherwise is translated.

Used on both sides, on the driver and in workers; the result is hashable by its properties, see `worker`.
What is called otherwise is in `kclient.properties`; here are the words of messages, in which options have the
names that the user gave.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from kclient.config import ClientConfig
from kclient.errors import ConfigurationError, KafkaError
from kclient.properties import translated

log: logging.Logger = logging.getLogger(__name__)

C = TypeVar("C", bound=ClientConfig)

# One property that stands for several of ours is named once.
_TWICE = re.compile(r"(kafka\.[\w.]+)(?:(?:,| and) \1(?![\w.]))+")


def config(kind: type[C], kafka: Mapping[str, str], **fixed: Any) -> C:
    """A configuration of a kind from properties; `fixed` are our names and win over what was given."""
    found = translated(kafka, "kafka.{}".format)
    for name in found.without_meaning:
        log.warning("kafka.%s has no meaning for kclient and is left out", name)
    for name, instead in found.refused.items():
        raise ConfigurationError(f"kafka.{name} is not supported: {instead}")
    options = found.options
    names = {name.replace("_", "."): name for name in fixed}
    for name in list(options):
        if name.replace("_", ".") in names:
            del options[name]
    try:
        return kind.from_options(options | fixed)
    except ConfigurationError as error:
        raise as_given(error, kind, kafka) from None


E = TypeVar("E", bound=KafkaError)


def as_given(error: E, kind: type[ClientConfig], kafka: Mapping[str, str]) -> E:
    """The same error in the words of who gave `kafka`: with `kafka.` and Kafka's names, not with ours."""
    if error.args and isinstance(error.args[0], str):
        error.args = (in_given_names(error.args[0], kind, kafka), *error.args[1:])
    return error


def in_given_names(text: str, kind: type[ClientConfig], kafka: Mapping[str, str]) -> str:
    """A text with our options called as the user did, or as Kafka does where the user named none.

    >>> in_given_names("ssl_cafile='x' is no file", ClientConfig, {"ssl.truststore.location": "x"})
    "kafka.ssl.truststore.location='x' is no file"
    """
    labels = _labels(kind, kafka)
    # A word such as `acks` may be anything: it is an option where a value follows, or in quotes.
    words = "|".join(
        re.escape(name) + ("" if "_" in name or "." in name else "(?=[='])") for name in sorted(labels)
    )
    named = re.sub(rf"(?<![\w./-])(?:{words})(?![\w/-]|\.\w)", lambda found: labels[found[0]], text)
    # An option that does not exist may be near to one that this text is the first to name.
    named = re.sub(r"did you mean '(?!kafka\.)", "did you mean 'kafka.", named)
    return _TWICE.sub(r"\1", named)


def _labels(kind: type[ClientConfig], kafka: Mapping[str, str]) -> dict[str, str]:
    """What to call each option: the property that set it, else Kafka's."""
    names = {
        field.name: field.metadata["row"].kafka or field.name.replace("_", ".")
        for field in dataclasses.fields(kind)
    }
    ours = {spelling: name for name in names for spelling in (name, names[name], name.replace("_", "."))}
    labels = {name: f"kafka.{property_}" for name, property_ in names.items()}
    set_by: dict[str, str] = {}
    for property_, value in kafka.items():
        options = translated({property_: value}, "kafka.{}".format).options
        set_by |= dict.fromkeys([property_, *options], f"kafka.{property_}")
    return labels | {ours[name]: given for name, given in set_by.items() if name in ours} | set_by
