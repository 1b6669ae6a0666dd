"""The partition log of the embedded broker: Kafka's own storage, on disk or in memory.

`partition_log` is what the server uses, `checkpoints` the small files around it. Beneath: `segment` (with
`index`, `storage`, `walk`), `validate` and `stamping` (what comes in), `producers` and `snapshots`, `epochs`,
`times`, `retention`, `compaction`, `recovery`. Synchronous, without threads and without asyncio.
"""
