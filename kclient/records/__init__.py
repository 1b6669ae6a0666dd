"""Kafka's record format: batches to bytes and back, in memory and without I/O."""
