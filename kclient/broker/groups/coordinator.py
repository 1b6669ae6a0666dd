"""The group coordinator of the cluster: from a request about groups or their offsets to its answer.

One for all nodes of an embedded cluster; which of them clients must ask is the handlers' business. It finds
the group of a request; `joining`, `syncing`, `mixed` and `offset_requests` do the work. What is wrong with a
request as a whole is in its answer, in the place that its version has for it.
"""

from __future__ import annotations

import asyncio

from kclient.broker.groups import joining, mixed, syncing
from kclient.broker.groups import offset_requests as requests
from kclient.broker.groups.answers import join_refused, sync_refused
from kclient.broker.groups.base import Group, GroupConfig
from kclient.broker.groups.classic import ClassicGroup
from kclient.broker.groups.descriptions import described, listed
from kclient.broker.groups.keeper import GroupKeeper
from kclient.broker.groups.modern import ConsumerGroup
from kclient.broker.groups.offsets import record
from kclient.errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    UnknownMemberIdError,
)
from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kclient.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kclient.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

__all__ = ["GroupConfig", "GroupCoordinator"]


class GroupCoordinator(GroupKeeper):
    """Answers requests about groups. Make it inside a running loop, add its readers, then `load`."""

    async def join_group(
        self, request: JoinGroupRequest, version: int, client_id: str, client_host: str
    ) -> JoinGroupResponse:
        """Waits until the group is complete, where it is not refused."""
        answer: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
        applicant = joining.Applicant(request, version, client_id, client_host, answer)
        try:
            self._check_named(request.group_id)
            timeout, config = request.session_timeout_ms, self.config
            if not config.group_min_session_timeout_ms <= timeout <= config.group_max_session_timeout_ms:
                raise InvalidSessionTimeoutError(about=f"{timeout} ms")
            group = self._group_to_join(request)
            if isinstance(group, ConsumerGroup):
                response = mixed.join(group, applicant, self.random)
            else:
                joining.join(group, applicant)
                response = await answer
        except BrokerError as error:
            response = join_refused(error, request.member_id)
        # Before version 7 it cannot be null.
        response.protocol_name = response.protocol_name or (None if version >= 7 else "")
        return response

    async def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """Waits until the leader has sent its assignment, where it is not refused."""
        answer: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
        try:
            group = self._joined(request.group_id)
            if isinstance(group, ConsumerGroup):
                return mixed.sync(group, request)
            syncing.sync(group, request, answer)
            return await answer
        except BrokerError as error:
            return sync_refused(error)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        try:
            group = self._joined(request.group_id)
            if isinstance(group, ConsumerGroup):
                mixed.heartbeat(group, request)
            else:
                syncing.heartbeat(group, request)
        except BrokerError as error:
            return HeartbeatResponse(error_code=error.code)
        return HeartbeatResponse()

    async def leave_group(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        """Before version 3 one member leaves, and the answer has its error only."""
        leaving = request.members
        if version < 3:
            leaving = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
        try:
            group = self._joined(request.group_id)
            if isinstance(group, ConsumerGroup):
                answers = mixed.leave(group, leaving)
            else:
                answers = syncing.leave(group, leaving)
        except UnknownMemberIdError:
            answers = syncing.not_members(leaving)
        except BrokerError as error:
            return LeaveGroupResponse(error_code=error.code)
        if version < 3:
            return LeaveGroupResponse(error_code=answers[0].error_code)
        return LeaveGroupResponse(members=answers)

    async def offset_commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        answer = requests.CommitAnswer()
        found = requests.existing(request, version, self.topics, answer)
        try:
            refusal = 0
            if found:
                self._check_commit(request, version, found)
        except BrokerError as error:
            refusal = error.code
        now, changes = self.now_ms(), []
        for topic, asked, partition in found:
            code = refusal or requests.metadata_code(partition, self.config.offset_metadata_max_bytes)
            if not code:
                one = requests.committed(partition, asked.topic_id, now, request.retention_time_ms)
                changes.append((topic.name, partition.partition_index, one))
            answer.add(asked, partition.partition_index, code)
        try:
            self.append(request.group_id, [record(request.group_id, *change) for change in changes])
        except BrokerError as error:
            return requests.commit_refused(request, error)
        for change in changes:
            self.offsets.put(request.group_id, *change)
        if changes:
            self.own_offsets(request.group_id)
        return answer.response()

    async def offset_fetch(self, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        """Nothing is unstable before there are transactions, so `require_stable` has nothing to wait for."""
        groups = [self.fetch_group(asked, version) for asked in requests.requested_groups(request, version)]
        return requests.fetch_response(groups, version)

    def fetch_group(self, asked: requests.FetchGroup, version: int) -> requests.FetchedGroup:
        """The part of OffsetFetch that is about one group."""
        try:
            self._check_open()
            group = self.groups.get(asked.group_id)
            if group is None:
                return requests.nothing_fetched(asked)
            group.check_fetch(asked.member_id, asked.member_epoch)
        except BrokerError as error:
            return requests.fetch_refused(asked, version, error)
        return requests.fetched(asked, version, self.offsets, self.topics)

    async def offset_delete(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        try:
            self._check_named(request.group_id)
            group = self._existing(request.group_id)
            group.check_offset_delete()
            response, deleted = requests.deletions(request, group, self.topics)
            self.remove_offsets(request.group_id, deleted)
        except BrokerError as error:
            return OffsetDeleteResponse(error_code=error.code, topics=[])
        return response

    async def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        return listed(self.groups.values(), request)

    async def describe_groups(self, request: DescribeGroupsRequest, version: int) -> DescribeGroupsResponse:
        return described(self.groups, request, version)

    async def delete_groups(self, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        results = []
        for group_id in request.groups_names:
            result = DeleteGroupsResponse.DeletableGroupResult(group_id=group_id)
            try:
                self._check_open()
                group = self._existing(group_id)
                group.check_delete()
                self.delete(group)
            except BrokerError as error:
                result.error_code = error.code
            results.append(result)
        return DeleteGroupsResponse(results=results)

    def _check_open(self) -> None:
        if self.closed:
            raise CoordinatorNotAvailableError(about="groups of a broker that stops")

    def _check_named(self, group_id: str) -> None:
        """Old clients may commit and fetch offsets under an empty id, but nobody may join it."""
        self._check_open()
        if not group_id:
            raise InvalidGroupIdError(about="an empty group id")

    def _existing(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        return group

    def _joined(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """The group of somebody who must be a member of it."""
        self._check_named(group_id)
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise UnknownMemberIdError(about=f"group {group_id}, which does not exist")
        return group

    def _group_to_join(self, request: JoinGroupRequest) -> ClassicGroup | ConsumerGroup:
        """The group; made for who comes without a member id, in the place of an empty one of another kind."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup) or (isinstance(group, ConsumerGroup) and not group.is_empty):
            return group
        if group is not None and not group.is_empty:
            raise InconsistentGroupProtocolError(about=f"group {request.group_id} of type {group.type_name}")
        if request.member_id:
            raise UnknownMemberIdError(about=f"member {request.member_id} of a group that does not exist")
        made = ClassicGroup(request.group_id, self)
        self.append(request.group_id, [*(group.tombstones() if group else ()), made.record()])
        if group is not None:
            group.close()
        self.groups[request.group_id] = made
        return made

    def _check_commit(
        self, request: OffsetCommitRequest, version: int, found: list[requests.CommittedPartition]
    ) -> None:
        """May it commit all of this? A group need not exist for those who have no generation to show."""
        self._check_open()
        epoch = request.generation_id_or_member_epoch
        group = self.groups.get(request.group_id)
        if group is None and epoch >= 0:
            if version >= 9:
                raise GroupIdNotFoundError(f"Group {request.group_id} not found.")
            raise IllegalGenerationError(about=f"generation {epoch} of group {request.group_id}")
        if group is not None:
            group.check_commit(request.member_id, epoch, request.group_instance_id, version)
        if isinstance(group, ConsumerGroup):
            for topic, _, partition in found:
                if not requests.metadata_code(partition, self.config.offset_metadata_max_bytes):
                    group.check_commit_of(request.member_id, epoch, topic.topic_id, partition.partition_index)
