"""Cases about settings."""

from __future__ import annotations

from typing import Any

from kclient.admin import AlterConfigOp, ConfigEntry, ConfigResource, ConfigSource, ConfigSynonym, ConfigType
from kclient.admin.configs import DescribeConfigs, IncrementalAlterConfigs
from kclient.errors import error_for
from kclient.wire.messages.configs import DescribeConfigsResponse, IncrementalAlterConfigsResponse
from tests.unit.admin.cases.base import BROKER, TOPIC, Case


def _configs(version: int) -> DescribeConfigsResponse:
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult
    return DescribeConfigsResponse(
        results=[
            result(
                error_message=None,
                resource_type=2,
                resource_name="orders",
                configs=[
                    entry(
                        name="retention.ms",
                        value="1",
                        read_only=False,
                        config_source=1,
                        is_sensitive=False,
                        synonyms=[entry.DescribeConfigsSynonym(name="log.retention.ms", value="2", source=5)],
                        config_type=5 if version >= 3 else 0,
                        documentation="how long" if version >= 3 else "",
                    )
                ],
            ),
            result(error_code=42, error_message="no", resource_type=4, resource_name="1", configs=[]),
        ]
    )


def _described_configs(version: int) -> dict[ConfigResource, Any]:
    entry = ConfigEntry(
        name="retention.ms",
        value="1",
        source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        is_read_only=False,
        is_sensitive=False,
        type=ConfigType.LONG if version >= 3 else ConfigType.UNKNOWN,
        synonyms=(ConfigSynonym("log.retention.ms", "2", ConfigSource.DEFAULT_CONFIG),),
        documentation="how long" if version >= 3 else None,
    )
    return {TOPIC: {"retention.ms": entry}, BROKER: error_for(42, "no", about="configs of broker 1")}


def _altered_configs(_version: int) -> IncrementalAlterConfigsResponse:
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(
        responses=[
            result(error_message=None, resource_type=2, resource_name="orders"),
            result(error_code=40, error_message="no such name", resource_type=4, resource_name="1"),
        ]
    )


CASES = [
    Case(
        DescribeConfigs(["retention.ms"], include_synonyms=True, include_documentation=True),
        [TOPIC, BROKER],
        _configs,
        _described_configs,
    ),
    Case(
        IncrementalAlterConfigs(
            {
                TOPIC: [AlterConfigOp.set("retention.ms", "1"), AlterConfigOp.delete("segment.ms")],
                BROKER: [AlterConfigOp.append("a", "b"), AlterConfigOp.subtract("a", "c")],
            },
            validate_only=True,
        ),
        [TOPIC, BROKER],
        _altered_configs,
        lambda _: {TOPIC: None, BROKER: error_for(40, "no such name", about="configs of broker 1")},
    ),
]
