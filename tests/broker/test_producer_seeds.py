"""Nothing lost, nothing twice, order kept, nothing late: producers under every fault, one story per seed.

`KCLIENT_SEEDS=10000` runs more of them. Run as a program with a seed this prints the hash of the trace, which
must be the same in every process. Below are the controls: the same stories without idempotence, and with
outboxes that are broken on purpose, have to be found out.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kclient.broker.faults import Kind
from kclient.errors import KafkaConnectionError, KafkaError
from kclient.producer import dispatch
from kclient.producer.batch import Batch
from kclient.producer.outbox import Outbox
from kclient.producer.verdicts import Verdict, judge
from kclient.testing import simulate
from tests.broker.producer_history import History, disordered, late, lost, story, twice, unsent, violations

ROOT = Path(__file__).parents[2]
GROUP = 50
SEEDS = max(GROUP, int(os.environ.get("KCLIENT_SEEDS", "500")) // GROUP * GROUP)
SAME = 7
# Broken producers are found out within so many stories; much sooner, as a rule.
ENOUGH = 200


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """A cluster in such a state is worth a warning every other moment."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_every_record_is_written_once_in_order_and_settled_in_time_whatever_goes_wrong(first: int) -> None:
    delivered, met = 0, set[Kind]()
    for seed in range(first, first + GROUP):
        history = simulate(story, seed=seed)
        found = violations(history)
        assert not found, f"seed {seed}:\n" + "\n".join(found[:20])
        delivered += history.acknowledged
        met |= history.met
    assert delivered > GROUP, "stories in which nothing gets through prove nothing"
    assert met == set(Kind), "stories in which nothing goes wrong neither"


def test_one_seed_gives_one_history_in_every_process() -> None:
    here = simulate(story, seed=SAME).digest
    assert simulate(story, seed=SAME).digest == here
    assert simulate(story, seed=SAME + 1).digest != here
    ran = subprocess.run(
        [sys.executable, "-m", "tests.broker.test_producer_seeds", str(SAME)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": "random"},
        cwd=ROOT,
    )
    assert ran.stdout.strip() == here


# Controls


def found_by(check: Callable[[History], list[str]], **options: Any) -> bool:
    """Whether a check has something to say about one of the stories."""
    told = partial(story, **options)
    return any(check(simulate(told, seed=seed, allow_leftovers=True)) for seed in range(ENOUGH))


@pytest.mark.parametrize("check", [twice, disordered])
def test_without_idempotence_the_same_faults_write_records_twice_and_out_of_order(
    check: Callable[[History], list[str]],
) -> None:
    assert found_by(check, enable_idempotence=False, max_in_flight_requests_per_connection=5)


def test_a_batch_of_unknown_fate_that_is_numbered_anew_is_written_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Outbox.back

    def back(self: Outbox, batch: Batch, *, refused: bool) -> None:
        kept(self, batch, refused=refused)
        if not self.flying:
            assert self.identity is not None
            self._number_anew()

    monkeypatch.setattr(Outbox, "back", back)
    assert found_by(twice)


def test_a_batch_that_comes_back_behind_younger_ones_is_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def back(self: Outbox, batch: Batch, *, refused: bool) -> None:
        self.flying.remove(batch)
        batch.refused = refused
        self.returned.append(batch)

    monkeypatch.setattr(Outbox, "back", back)
    assert found_by(disordered)


def test_an_identity_that_begins_with_several_batches_is_out_of_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Outbox.due

    def due(self: Outbox, now: float, hurry: bool) -> float:
        self._introduced = True
        return kept(self, now, hurry)

    monkeypatch.setattr(Outbox, "due", due)
    assert found_by(disordered)


def test_a_batch_that_counts_as_written_when_its_answer_is_lost_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trusting(error: KafkaError | None, batch: Batch, retries: int) -> Verdict:
        verdict = judge(error, batch, retries)
        return Verdict.WRITTEN if isinstance(error, KafkaConnectionError) else verdict

    monkeypatch.setattr(dispatch, "judge", trusting)
    assert found_by(lost)


def test_records_that_never_expire_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outbox, "expire", lambda *_: ([], []))
    monkeypatch.setattr(Outbox, "next_deadline", lambda _: float("inf"))
    assert found_by(late)


def test_a_record_that_was_refused_and_is_there_all_the_same_is_told() -> None:
    assert unsent(History(refused=[b"0.0.1"], log={0: {0: b"0.0.1"}}))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print(simulate(story, seed=int(sys.argv[1])).digest)
