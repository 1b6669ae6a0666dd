"""SASLprep: the examples of RFC 4013, section 3, and what lies around them."""

from __future__ import annotations

import pytest

from kclient.net.sasl.saslprep import saslprep


@pytest.mark.parametrize(
    ("given", "prepared"),
    [
        ("I\u00adX", "IX"),  # a soft hyphen is mapped to nothing
        ("user", "user"),
        ("USER", "USER"),  # case is kept
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),  # a space that is not ASCII becomes one
        ("pa\u0308ss", "p\u00e4ss"),  # composed
        ("\uff50\uff57", "pw"),  # full width
        ("\U0001f600", "\U0001f600"),  # not assigned in Unicode 3.2: a query may hold it
        ("\u0627\u0628", "\u0627\u0628"),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
    ],
)
def test_text_is_mapped_and_normalised(given: str, prepared: str) -> None:
    assert saslprep(given) == prepared


@pytest.mark.parametrize(
    "given",
    [
        "\u0007",
        "a\x7f",
        "\u0627\u0031",
        "\u0627a\u0628",
        "\ue000",
        "\ufffd",
        "\u0340\u200e",
        "\u2ff0",
        "\U000e0001",
    ],
)
def test_prohibited_characters_and_mixed_directions_are_refused(given: str) -> None:
    assert saslprep(given) is None
