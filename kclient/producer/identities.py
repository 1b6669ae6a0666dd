"""Producer ids: asked from the cluster when they are needed, for as long as it takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.cluster.rights import lacking
from kclient.errors import KafkaError, KafkaTimeoutError, error_for
from kclient.producer.batch import Identity
from kclient.wire.messages.transactions import InitProducerIdRequest

log: logging.Logger = logging.getLogger(__name__)

_NO_TIMEOUT = 0x7FFF_FFFF


class Identities:
    """Gets producer ids. `got` is called with each, `failed` when it is clear that there will be none."""

    def __init__(
        self, cluster: Cluster, got: Callable[[Identity], None], failed: Callable[[KafkaError], None]
    ) -> None:
        self._cluster = cluster
        self._got = got
        self._failed = failed
        self._task: asyncio.Task[None] | None = None
        self.last_error: KafkaError | None = None

    def ask(self) -> None:
        """Wish for a producer id; wishes that come meanwhile are the same one."""
        if self._task is None:
            self._task = self._cluster.tasks.start(self._run(), "kclient producer id", returns=True)
            self._task.add_done_callback(self._ended)

    def stop(self) -> asyncio.Task[None] | None:
        """End the asking; the task, if there is one, is being cancelled."""
        task = self._task
        if task is not None:
            self._cluster.tasks.end(task)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None

    async def _run(self) -> None:
        backoff = self._cluster.backoff()
        while True:
            try:
                identity = await self._ask_once()
            except KafkaError as error:
                self.last_error = error
                if not error.retriable and not isinstance(error, KafkaTimeoutError):
                    self._task = None
                    self._failed(error)
                    return
                log.debug("no producer id yet: %s", error)
                await asyncio.sleep(backoff.next())
            else:
                self.last_error = None
                self._task = None  # whoever finds the id not good enough may ask again at once
                self._got(identity)
                return

    async def _ask_once(self) -> Identity:
        loop = asyncio.get_running_loop()
        deadline = Deadline.after(loop, self._cluster.config.request_timeout_ms / 1000)
        answer = await self._cluster.call(None, _request, InitProducerIdRequest, deadline)
        error = error_for(answer.error_code, about="a producer id")
        lacking(error, InitProducerIdRequest, self._cluster.config)
        if error is not None:
            raise error
        return Identity(answer.producer_id, answer.producer_epoch)


def _request(version: int) -> InitProducerIdRequest:  # noqa: ARG001 - all versions ask alike
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT)
