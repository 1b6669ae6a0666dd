"""An embedded Kafka broker in pure Python, for development and tests: `async with Broker() as broker`."""

from kclient.broker.broker import Broker
from kclient.broker.faults import Fault, Faults
from kclient.broker.security.listeners import ListenerSpec

__all__ = ["Broker", "Fault", "Faults", "ListenerSpec"]
