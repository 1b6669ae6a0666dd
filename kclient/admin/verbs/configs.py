"""Verbs about settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.admin.configs import (
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    DescribeConfigs,
    IncrementalAlterConfigs,
)
from kclient.admin.outcomes import Outcomes
from kclient.admin.verbs.base import Names, Verbs, several


class ConfigVerbs(Verbs):
    """Describe and alter the settings of topics, brokers and groups."""

    async def describe_configs(  # noqa: PLR0913
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        names: Names | None = None,
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of resources by name: all of them, or those of the given `names`.

        orders = ConfigResource.topic("orders")
        retention = (await admin.describe_configs(orders))[orders]["retention.ms"].value
        """
        wanted = [resources] if isinstance(resources, ConfigResource) else list(resources)
        operation = DescribeConfigs(
            None if names is None else several(names), include_synonyms, include_documentation
        )
        deadline = self._open().deadline(timeout_ms)
        return await self._run_and_raise(operation, wanted, deadline, raise_errors=raise_errors)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None] | Iterable[AlterConfigOp]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Change single settings and leave the others alone: name to value, None for back to the default.

            orders = ConfigResource.topic("orders")
            await admin.incremental_alter_configs({orders: {"retention.ms": "3600000", "segment.ms": None}})
            await admin.incremental_alter_configs({jobs: [AlterConfigOp.append("cleanup.policy", "compact")]})

        Needs Kafka 2.3.
        """
        wanted = {resource: _changes(each) for resource, each in changes.items()}
        operation = IncrementalAlterConfigs(wanted, validate_only)
        deadline = self._open().deadline(timeout_ms)
        return await self._run_and_raise(operation, wanted, deadline, raise_errors=raise_errors)


def _changes(given: Mapping[str, str | None] | Iterable[AlterConfigOp]) -> list[AlterConfigOp]:
    if not isinstance(given, Mapping):
        return list(given)
    return [
        AlterConfigOp.delete(name) if value is None else AlterConfigOp.set(name, value)
        for name, value in given.items()
    ]
