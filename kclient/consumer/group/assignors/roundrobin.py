"""Round robin: all partitions of all topics in turn over the members that want them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from kclient.consumer.group.assignors.base import Assignment, Assignor, Layout, Member, in_order
from kclient.types import TopicPartition


class RoundRobinAssignor(Assignor):
    """Deals partitions out like cards, to whoever is next and subscribed."""

    name = "roundrobin"

    def assign(self, layout: Layout, members: Mapping[str, Member]) -> Assignment:
        assignment: Assignment = {member: [] for member in members}
        turns = cycle(in_order(members))
        wanted = {topic for member in members.values() for topic in member.topics}
        for topic in sorted(wanted & set(layout)):
            for number in range(len(layout[topic])):
                taker = next(member for member in turns if topic in members[member].topics)
                assignment[taker].append(TopicPartition(topic, number))
        return assignment
