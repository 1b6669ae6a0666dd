"""Where partitions lie and how large they are."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.wire.messages.replicas import DescribeLogDirsRequest, DescribeLogDirsResponse

Directory = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = Directory.DescribeLogDirsTopic


@handles(DescribeLogDirsRequest)
async def describe_log_dirs(
    context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    wanted = None if request.topics is None else {topic.topic: topic.partitions for topic in request.topics}
    topics = []
    for topic in context.broker.topics.by_name.values():
        partitions = [
            Topic.DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size,
                offset_lag=0,
                is_future_key=False,
            )
            for partition in topic.partitions
            if context.node.node_id in partition.replicas
            and (wanted is None or partition.index in wanted.get(topic.name, ()))
        ]
        if partitions:
            topics.append(Topic(name=topic.name, partitions=partitions))
    return DescribeLogDirsResponse(results=[Directory(log_dir=context.broker.data_directory, topics=topics)])
