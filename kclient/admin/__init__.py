"""The admin client, and what its verbs take and give."""

from __future__ import annotations

from kclient.admin.blocking import Admin
from kclient.admin.client import AsyncAdmin
from kclient.admin.cluster import ClusterDescription
from kclient.admin.configs import (
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    OpType,
)
from kclient.admin.group_descriptions import (
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
)
from kclient.admin.offsets import IsolationLevel, ListedOffset, OffsetSpec
from kclient.admin.outcomes import Outcomes
from kclient.admin.permissions import AclOperation
from kclient.admin.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)

__all__ = [
    "AclOperation",
    "Admin",
    "AlterConfigOp",
    "AsyncAdmin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConsumerGroupDescription",
    "CreatedTopic",
    "GroupListing",
    "GroupState",
    "GroupType",
    "IsolationLevel",
    "ListedOffset",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "OpType",
    "Outcomes",
    "PartitionDescription",
    "TopicDescription",
    "TopicListing",
]
