"""Version ranges: notation, membership, and negotiating the version to speak."""

from __future__ import annotations

import pytest

from kclient.errors import IncompatibleBrokerError
from kclient.wire.api import ApiKey, negotiate
from kclient.wire.versions import EVERY_VERSION, NO_VERSION, VersionRange


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", (3, 3)), ("0-4", (0, 4)), ("12+", (12, 32767)), ("none", (0, -1)), ("0+", EVERY_VERSION)],
)
def test_the_notation_of_kafkas_definitions_is_read_and_written(text: str, expected: tuple[int, int]) -> None:
    assert VersionRange.parse(text) == expected
    assert str(VersionRange.parse(text)) == text


@pytest.mark.parametrize("text", ["", "x", "1-x", "+", "-", "1-2-3"])
def test_what_is_no_notation_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        VersionRange.parse(text)


def test_both_ends_belong_to_a_range() -> None:
    assert [version for version in range(-1, 8) if version in VersionRange(2, 5)] == [2, 3, 4, 5]
    assert 0 not in NO_VERSION


def test_a_range_covers_what_lies_inside_it_and_everything_covers_nothing() -> None:
    assert VersionRange(1, 5).covers(VersionRange(1, 5))
    assert VersionRange(1, 5).covers(VersionRange(2, 3))
    assert not VersionRange(1, 5).covers(VersionRange(0, 3))
    assert not VersionRange(1, 5).covers(VersionRange(3, 6))
    assert VersionRange(1, 5).covers(NO_VERSION)
    assert NO_VERSION.covers(NO_VERSION)
    assert not NO_VERSION.covers(VersionRange(0, 0))


def test_the_overlap_of_two_ranges_is_what_both_hold() -> None:
    assert VersionRange(1, 5).overlap(VersionRange(3, 9)) == VersionRange(3, 5)
    assert str(VersionRange(1, 2).overlap(VersionRange(4, 5))) == "none"


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((4, 18), (0, 11), 11),  # an older broker
        ((4, 11), (0, 18), 11),  # a newer broker
        ((4, 18), (4, 18), 18),
        ((0, 4), (4, 9), 4),  # one version in common, our last
        ((4, 9), (0, 4), 4),  # one version in common, our first
        ((2, 2), (0, 9), 2),
    ],
)
def test_the_newest_version_of_both_sides_is_spoken(
    ours: tuple[int, int], theirs: tuple[int, int], expected: int
) -> None:
    assert negotiate(ApiKey.FETCH, VersionRange(*ours), VersionRange(*theirs)) == expected


def test_a_broker_that_is_too_old_is_named_with_what_to_do() -> None:
    with pytest.raises(IncompatibleBrokerError) as caught:
        negotiate(ApiKey.FETCH, VersionRange(4, 18), VersionRange(0, 3))
    assert str(caught.value) == (
        "no common version of FETCH: kclient speaks 4-18, the broker 0-3; upgrade the broker"
    )


def test_a_broker_that_is_too_new_is_named_with_what_to_do() -> None:
    with pytest.raises(IncompatibleBrokerError) as caught:
        negotiate(ApiKey.FETCH, VersionRange(4, 18), VersionRange(19, 20))
    assert str(caught.value) == (
        "no common version of FETCH: kclient speaks 4-18, the broker 19-20; upgrade kclient"
    )


def test_an_api_that_the_broker_does_not_offer_is_named() -> None:
    with pytest.raises(IncompatibleBrokerError, match="does not offer SHARE_FETCH"):
        negotiate(ApiKey.SHARE_FETCH, VersionRange(1, 2), None)


def test_an_empty_range_has_no_version_in_common_with_any() -> None:
    with pytest.raises(IncompatibleBrokerError):
        negotiate(ApiKey.FETCH, VersionRange(0, 5), NO_VERSION)
    with pytest.raises(IncompatibleBrokerError):
        negotiate(ApiKey.FETCH, NO_VERSION, VersionRange(0, 5))
