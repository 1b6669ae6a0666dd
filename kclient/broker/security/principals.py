"""The name of a client that showed a certificate: its subject as Java's `X500Principal` prints it (RFC 2253).

Last part first, a handful of attributes by their short names, the others as numbers with the value in DER.
Python tells an attribute's value but not in which type of text it was: for those others that is inferred.
Used by `listeners`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ANONYMOUS = "User:ANONYMOUS"

# The names that OpenSSL has for attributes, and what RFC 2253 has for them.
_SHORT = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_NUMBERS = {
    "emailAddress": "1.2.840.113549.1.9.1",
    "unstructuredName": "1.2.840.113549.1.9.2",
    "surname": "2.5.4.4",
    "serialNumber": "2.5.4.5",
    "title": "2.5.4.12",
    "description": "2.5.4.13",
    "businessCategory": "2.5.4.15",
    "postalAddress": "2.5.4.16",
    "postalCode": "2.5.4.17",
    "telephoneNumber": "2.5.4.20",
    "name": "2.5.4.41",
    "givenName": "2.5.4.42",
    "initials": "2.5.4.43",
    "generationQualifier": "2.5.4.44",
    "dnQualifier": "2.5.4.46",
    "pseudonym": "2.5.4.65",
    "organizationIdentifier": "2.5.4.97",
    "jurisdictionLocalityName": "1.3.6.1.4.1.311.60.2.1.1",
    "jurisdictionStateOrProvinceName": "1.3.6.1.4.1.311.60.2.1.2",
    "jurisdictionCountryName": "1.3.6.1.4.1.311.60.2.1.3",
}
_UTF8, _PRINTABLE, _IA5 = 0x0C, 0x13, 0x16
_TYPES = {
    "emailAddress": _IA5,
    "serialNumber": _PRINTABLE,
    "dnQualifier": _PRINTABLE,
    "telephoneNumber": _PRINTABLE,
    "jurisdictionCountryName": _PRINTABLE,
}
_ESCAPES = {"\0": "\\00"} | {char: f"\\{char}" for char in ',=+<>#;"\\'}


def principal_of(certificate: Mapping[str, Any] | None) -> str:
    """The principal of a client by what `getpeercert()` says of it; without a certificate it has no name.

    >>> principal_of({"subject": ((("organizationName", "Acme, Inc."),), (("commonName", "alice"),))})
    'User:CN=alice,O=Acme\\\\, Inc.'
    """
    if not certificate:
        return ANONYMOUS
    parts = ["+".join(_attribute(name, value) for name, value in part) for part in certificate["subject"]]
    return f"User:{','.join(reversed(parts))}"


def _attribute(name: str, value: str) -> str:
    if name in _SHORT:
        return f"{_SHORT[name]}={_escaped(value)}"
    data = value.encode()
    encoded = bytes([_TYPES.get(name, _UTF8)]) + _length(len(data)) + data
    return f"{_NUMBERS.get(name, name)}=#{encoded.hex()}"


def _length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([0x80 | len(digits)]) + digits


def _escaped(value: str) -> str:
    lead = len(value) - len(value.lstrip(" \r"))
    trail = max(lead, len(value.rstrip(" \r")))
    text = "".join(_ESCAPES.get(char, char) for char in value[lead:trail])
    before, after = ("".join(f"\\{char}" for char in part) for part in (value[:lead], value[trail:]))
    return f"{before}{text}{after}"
