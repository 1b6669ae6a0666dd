"""Fixtures for all tests: real brokers come from `tools.kafka.fixtures`."""

pytest_plugins = ["tools.kafka.fixtures"]
