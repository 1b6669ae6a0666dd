"""Every broker setting of Kafka 4.3 but those of TLS and SASL, as a broker of that version describes itself.

A line has the name, the type, the default (`-` for none, `""` for an empty one) and a star where brokers take
a new value while they run. `refusals` says which are refused here.
"""

from __future__ import annotations

from typing import NamedTuple

# As DescribeConfigs numbers them.
TYPES = {
    "bool": 1,
    "str": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}


class KnownSetting(NamedTuple):
    """What Kafka says of one setting; `default` is None where there is none."""

    type: int
    default: str | None
    dynamic: bool


_TABLE = """\
add.partitions.to.txn.retry.backoff.max.ms int 100
add.partitions.to.txn.retry.backoff.ms int 20
advertised.listeners list -
alter.config.policy.class.name class -
alter.log.dirs.replication.quota.window.num int 11
alter.log.dirs.replication.quota.window.size.seconds int 1
authorizer.class.name str ""
auto.create.topics.enable bool true
auto.leader.rebalance.enable bool true
background.threads int 10 *
broker.heartbeat.interval.ms int 2000
broker.id int -1
broker.rack str -
broker.session.timeout.ms int 9000
client.quota.callback.class class -
compression.gzip.level int -1 *
compression.lz4.level int 9 *
compression.type str producer *
compression.zstd.level int 3 *
config.providers list "" *
connection.failed.authentication.delay.ms int 100
connections.max.idle.ms long 600000
connections.max.reauth.ms long 0
controlled.shutdown.enable bool true
controller.listener.names list -
controller.quorum.append.linger.ms int 25
controller.quorum.auto.join.enable bool false
controller.quorum.bootstrap.servers list ""
controller.quorum.election.backoff.max.ms int 1000
controller.quorum.election.timeout.ms int 1000
controller.quorum.fetch.max.bytes int 1048576
controller.quorum.fetch.snapshot.max.bytes int 1048576
controller.quorum.fetch.timeout.ms int 2000
controller.quorum.request.timeout.ms int 2000
controller.quorum.retry.backoff.ms int 20
controller.quorum.voters list ""
controller.quota.window.num int 11
controller.quota.window.size.seconds int 1
controller.socket.timeout.ms int 30000
cordoned.log.dirs list "" *
create.topic.policy.class.name class -
default.replication.factor int 1
delegation.token.expiry.check.interval.ms long 3600000
delegation.token.expiry.time.ms long 86400000
delegation.token.max.lifetime.ms long 604800000
delegation.token.secret.key password -
delete.records.purgatory.purge.interval.requests int 1
delete.topic.enable bool true
early.start.listeners list -
fetch.max.bytes int 57671680
fetch.purgatory.purge.interval.requests int 1000
follower.fetch.last.tiered.offset.enable bool false *
group.consumer.assignment.interval.ms int 1000 *
group.consumer.assignors list uniform,range
group.consumer.heartbeat.interval.ms int 5000
group.consumer.max.assignment.interval.ms int 15000
group.consumer.max.heartbeat.interval.ms int 15000
group.consumer.max.session.timeout.ms int 60000
group.consumer.max.size int 2147483647
group.consumer.migration.policy str bidirectional
group.consumer.min.assignment.interval.ms int 0
group.consumer.min.heartbeat.interval.ms int 5000
group.consumer.min.session.timeout.ms int 45000
group.consumer.session.timeout.ms int 45000
group.coordinator.append.linger.ms int -1
group.coordinator.background.threads int 2
group.coordinator.cached.buffer.max.bytes int 1048588 *
group.coordinator.rebalance.protocols list classic,consumer,streams
group.coordinator.threads int 4
group.initial.rebalance.delay.ms int 3000
group.max.session.timeout.ms int 1800000
group.max.size int 2147483647
group.min.session.timeout.ms int 6000
group.share.assignment.interval.ms int 1000 *
group.share.assignors list simple
group.share.delivery.count.limit int 5
group.share.heartbeat.interval.ms int 5000
group.share.max.assignment.interval.ms int 15000
group.share.max.delivery.count.limit int 10
group.share.max.heartbeat.interval.ms int 15000
group.share.max.partition.max.record.locks int 4000
group.share.max.record.lock.duration.ms int 60000
group.share.max.session.timeout.ms int 60000
group.share.max.share.sessions int 2000
group.share.max.size int 200
group.share.min.assignment.interval.ms int 0
group.share.min.delivery.count.limit int 2
group.share.min.heartbeat.interval.ms int 5000
group.share.min.partition.max.record.locks int 100
group.share.min.record.lock.duration.ms int 15000
group.share.min.session.timeout.ms int 45000
group.share.partition.max.record.locks int 2000
group.share.record.lock.duration.ms int 30000
group.share.session.timeout.ms int 45000
group.streams.assignment.interval.ms int 1000 *
group.streams.heartbeat.interval.ms int 5000
group.streams.initial.rebalance.delay.ms int 3000
group.streams.max.assignment.interval.ms int 15000
group.streams.max.heartbeat.interval.ms int 15000
group.streams.max.session.timeout.ms int 60000
group.streams.max.size int 2147483647
group.streams.max.standby.replicas int 2
group.streams.min.assignment.interval.ms int 0
group.streams.min.heartbeat.interval.ms int 5000
group.streams.min.session.timeout.ms int 45000
group.streams.num.standby.replicas int 0
group.streams.session.timeout.ms int 45000
initial.broker.registration.timeout.ms int 60000
inter.broker.listener.name str -
kafka.metrics.polling.interval.secs int 10
kafka.metrics.reporters list ""
leader.imbalance.check.interval.seconds long 300
listener.security.protocol.map str - *
listeners list PLAINTEXT://:9092 *
log.cleaner.backoff.ms long 15000 *
log.cleaner.dedupe.buffer.size long 134217728 *
log.cleaner.delete.retention.ms long 86400000 *
log.cleaner.enable bool true
log.cleaner.io.buffer.load.factor double 0.9 *
log.cleaner.io.buffer.size int 524288 *
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 *
log.cleaner.max.compaction.lag.ms long 9223372036854775807 *
log.cleaner.min.cleanable.ratio double 0.5 *
log.cleaner.min.compaction.lag.ms long 0 *
log.cleaner.threads int 1 *
log.cleanup.policy list delete *
log.dir list /tmp/kafka-logs
log.dir.failure.timeout.ms long 30000
log.dirs list -
log.flush.interval.messages long 9223372036854775807 *
log.flush.interval.ms long - *
log.flush.offset.checkpoint.interval.ms int 60000
log.flush.scheduler.interval.ms long 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms int 60000
log.index.interval.bytes int 4096 *
log.index.size.max.bytes int 10485760 *
log.local.retention.bytes long -2 *
log.local.retention.ms long -2 *
log.message.timestamp.after.max.ms long 3600000 *
log.message.timestamp.before.max.ms long 9223372036854775807 *
log.message.timestamp.type str CreateTime *
log.preallocate bool false *
log.retention.bytes long -1 *
log.retention.check.interval.ms long 300000
log.retention.hours int 168
log.retention.minutes int -
log.retention.ms long - *
log.roll.hours int 168
log.roll.jitter.hours int 0
log.roll.jitter.ms long - *
log.roll.ms long - *
log.segment.bytes int 1073741824 *
log.segment.delete.delay.ms long 60000 *
max.connection.creation.rate int 2147483647 *
max.connections int 2147483647 *
max.connections.per.ip int 2147483647 *
max.connections.per.ip.overrides str "" *
max.incremental.fetch.session.cache.slots int 1000
max.request.partition.size.limit int 2000
message.max.bytes int 1048588 *
metadata.log.dir str -
metadata.log.max.record.bytes.between.snapshots long 20971520
metadata.log.max.snapshot.interval.ms long 3600000
metadata.log.segment.bytes int 1073741824
metadata.log.segment.ms long 604800000
metadata.max.idle.interval.ms int 500
metadata.max.retention.bytes long 104857600
metadata.max.retention.ms long 604800000
metric.reporters list org.apache.kafka.common.metrics.JmxReporter *
metrics.num.samples int 2
metrics.recording.level str INFO
metrics.sample.window.ms long 30000
min.insync.replicas int 1 *
node.id int -
num.io.threads int 8 *
num.network.threads int 3 *
num.partitions int 1
num.recovery.threads.per.data.dir int 2 *
num.replica.alter.log.dirs.threads int -
num.replica.fetchers int 1 *
offset.metadata.max.bytes int 4096
offsets.commit.timeout.ms int 5000
offsets.load.buffer.size int 5242880
offsets.retention.check.interval.ms long 600000
offsets.retention.minutes int 10080
offsets.topic.compression.codec int 0
offsets.topic.num.partitions int 50
offsets.topic.replication.factor short 3
offsets.topic.segment.bytes int 104857600
principal.builder.class class - *
process.roles list -
producer.id.expiration.ms int 86400000 *
producer.purgatory.purge.interval.requests int 1000
queued.max.request.bytes long -1
queued.max.requests int 500
quota.window.num int 11
quota.window.size.seconds int 1
remote.fetch.max.wait.ms int 500 *
remote.list.offsets.request.timeout.ms long 30000 *
remote.log.index.file.cache.total.size.bytes long 1073741824 *
remote.log.manager.copier.thread.pool.size int 10 *
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 *
remote.log.manager.copy.quota.window.num int 11
remote.log.manager.copy.quota.window.size.seconds int 1
remote.log.manager.expiration.thread.pool.size int 10 *
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 *
remote.log.manager.fetch.quota.window.num int 11
remote.log.manager.fetch.quota.window.size.seconds int 1
remote.log.manager.follower.thread.pool.size int 2 *
remote.log.manager.task.interval.ms long 30000
remote.log.manager.thread.pool.size int 2
remote.log.metadata.custom.metadata.max.bytes int 128
remote.log.metadata.manager.class.name str -
remote.log.metadata.manager.class.path str -
remote.log.metadata.manager.impl.prefix str rlmm.config.
remote.log.metadata.manager.listener.name str -
remote.log.reader.max.pending.tasks int 100
remote.log.reader.threads int 10 *
remote.log.storage.manager.class.name str -
remote.log.storage.manager.class.path str -
remote.log.storage.manager.impl.prefix str rsm.config.
remote.log.storage.system.enable bool false
replica.fetch.backoff.ms int 1000
replica.fetch.max.bytes int 1048576
replica.fetch.min.bytes int 1
replica.fetch.response.max.bytes int 10485760
replica.fetch.wait.max.ms int 500
replica.high.watermark.checkpoint.interval.ms long 5000
replica.lag.time.max.ms long 30000
replica.selector.class str -
replica.socket.receive.buffer.bytes int 65536
replica.socket.timeout.ms int 30000
replication.quota.window.num int 11
replication.quota.window.size.seconds int 1
request.timeout.ms int 30000
security.inter.broker.protocol str PLAINTEXT
security.providers str -
share.coordinator.append.linger.ms int -1
share.coordinator.cached.buffer.max.bytes int 1048588 *
share.coordinator.load.buffer.size int 5242880
share.coordinator.snapshot.update.records.per.snapshot int 500
share.coordinator.state.topic.compression.codec int 0
share.coordinator.state.topic.min.isr short 2
share.coordinator.state.topic.num.partitions int 50
share.coordinator.state.topic.replication.factor short 3
share.coordinator.state.topic.segment.bytes int 104857600
share.coordinator.threads int 1
share.coordinator.write.timeout.ms int 5000
share.fetch.purgatory.purge.interval.requests int 1000
socket.connection.setup.timeout.max.ms long 30000
socket.connection.setup.timeout.ms long 10000
socket.listen.backlog.size int 50
socket.receive.buffer.bytes int 102400
socket.request.max.bytes int 104857600
socket.send.buffer.bytes int 102400
telemetry.max.bytes int 1048576
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000
transaction.max.timeout.ms int 900000
transaction.partition.verification.enable bool true *
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000
transaction.state.log.load.buffer.size int 5242880
transaction.state.log.min.isr int 2
transaction.state.log.num.partitions int 50
transaction.state.log.replication.factor short 3
transaction.state.log.segment.bytes int 104857600
transaction.two.phase.commit.enable bool false
transactional.id.expiration.ms int 604800000
unclean.leader.election.enable bool false *
"""


def _read(line: str) -> tuple[str, KnownSetting]:
    name, kind, default, *dynamic = line.split(" ")
    value = None if default == "-" else default.replace('""', "")
    return name, KnownSetting(TYPES[kind], value, bool(dynamic))


KNOWN: dict[str, KnownSetting] = dict(_read(line) for line in _TABLE.splitlines())
