"""Kafka's wire format: messages to bytes and back, framing, version negotiation. No I/O."""
