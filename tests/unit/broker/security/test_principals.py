"""Names from certificates. What is expected was printed by Java's `X500Principal.getName()`."""

from __future__ import annotations

import pytest

from kclient.broker.security.principals import principal_of


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (
            [
                ("countryName", "DE"),
                ("stateOrProvinceName", "Berlin"),
                ("localityName", "B"),
                ("organizationName", "Acme, Inc."),
                ("organizationalUnitName", 'a+b=c<d>#;"\\'),
                ("commonName", "alice"),
            ],
            'CN=alice,OU=a\\+b\\=c\\<d\\>\\#\\;\\"\\\\,O=Acme\\, Inc.,L=B,ST=Berlin,C=DE',
        ),
        ([("commonName", "#lead")], "CN=\\#lead"),
        ([("commonName", " two  spaces ")], "CN=\\ two  spaces\\ "),
        ([("commonName", "  ")], "CN=\\ \\ "),
        ([("commonName", "Jürgen ✓ 𝄞")], "CN=Jürgen ✓ 𝄞"),
        ([("commonName", "a/b\ttab'q:?*")], "CN=a/b\ttab'q:?*"),
        ([("commonName", "a"), ("commonName", "b")], "CN=b,CN=a"),
        (
            [("emailAddress", "a@b.c"), ("commonName", "x")],
            "CN=x,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            [
                ("domainComponent", "com"),
                ("domainComponent", "example"),
                ("userId", "u1"),
                ("streetAddress", "Way 1"),
            ],
            "STREET=Way 1,UID=u1,DC=example,DC=com",
        ),
        (
            [("serialNumber", "12 3"), ("title", "Dr"), ("surname", "S"), ("givenName", "G")],
            "2.5.4.42=#0c0147,2.5.4.4=#0c0153,2.5.4.12=#0c024472,2.5.4.5=#130431322033",
        ),
        ([("1.2.3.4.5", "odd")], "1.2.3.4.5=#0c036f6464"),
        ([("emailAddress", "e" * 150)], "1.2.840.113549.1.9.1=#168196" + "65" * 150),
        ([("jurisdictionCountryName", "DE")], "1.3.6.1.4.1.311.60.2.1.3=#13024445"),
    ],
)
def test_a_subject_is_printed_as_java_does(subject: list[tuple[str, str]], name: str) -> None:
    assert principal_of({"subject": tuple((pair,) for pair in subject)}) == f"User:{name}"


def test_parts_of_several_attributes_keep_their_order() -> None:
    first = (("commonName", "a"), ("organizationalUnitName", "b"), ("userId", "c"))
    assert principal_of({"subject": (first, (("organizationName", "z"),))}) == "User:O=z,CN=a+OU=b+UID=c"


def test_nobody_is_anonymous() -> None:
    assert principal_of(None) == principal_of({}) == "User:ANONYMOUS"
