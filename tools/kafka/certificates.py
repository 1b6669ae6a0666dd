"""The certificates of the TLS listeners and of their clients: a test authority and what it signs, as PEM
files.

Everything is made anew for each cluster and lives in its temporary directory.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PASSWORD = "keystore-secret"  # of the encrypted client key and of the PKCS#12 stores

_LOCAL = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
_ELSEWHERE = [x509.DNSName("elsewhere.example.com")]


@dataclass(frozen=True)
class _Signed:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def key_pem(self, encryption: KeySerializationEncryption | None = None) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


class Certificates:
    """Paths of what `directory` was filled with.

    `ca` signed everything but `other_ca`, which signed nothing that the brokers use. `*_keystore_pem` and
    `*_keystore_p12` hold a broker's key and chain in the two forms that brokers read.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = _new_authority("kclient test CA")
        self.ca = self._write("ca.pem", self._authority.certificate_pem())
        self.other_ca = self._write("other-ca.pem", _new_authority("somebody else's CA").certificate_pem())
        self.ca_p12 = self._write("ca.p12", _truststore(self._authority.certificate))
        self.broker_keystore_pem, self.broker_keystore_p12 = self._broker("broker", _LOCAL)
        self.badhost_keystore_pem, self.badhost_keystore_p12 = self._broker("badhost", _ELSEWHERE)
        client = self._sign("client", [x509.DNSName("client")], ExtendedKeyUsageOID.CLIENT_AUTH)
        self.client_certificate = self._write("client.pem", client.certificate_pem())
        self.client_key = self._write("client.key", client.key_pem())
        self.client_key_encrypted = self._write(
            "client-encrypted.key", client.key_pem(BestAvailableEncryption(PASSWORD.encode()))
        )
        self.password = PASSWORD

    def _write(self, name: str, content: bytes) -> Path:
        path = self._directory / name
        path.write_bytes(content)
        return path

    def _broker(self, name: str, names: Sequence[x509.GeneralName]) -> tuple[Path, Path]:
        signed = self._sign(name, names, ExtendedKeyUsageOID.SERVER_AUTH)
        authority = self._authority
        pem = signed.key_pem() + signed.certificate_pem() + authority.certificate_pem()
        p12 = pkcs12.serialize_key_and_certificates(
            b"broker",
            signed.key,
            signed.certificate,
            [authority.certificate],
            BestAvailableEncryption(PASSWORD.encode()),
        )
        return self._write(f"{name}-keystore.pem", pem), self._write(f"{name}-keystore.p12", p12)

    def _sign(
        self, common_name: str, names: Sequence[x509.GeneralName], usage: x509.ObjectIdentifier
    ) -> _Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        authority = self._authority
        builder = (
            _builder(common_name, authority.certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
            )
        )
        return _Signed(key, builder.sign(authority.key, hashes.SHA256()))


def _new_authority(common_name: str) -> _Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(common_name, _name(common_name), key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    return _Signed(key, builder.sign(key, hashes.SHA256()))


def _builder(common_name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "kclient tests"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _truststore(certificate: x509.Certificate) -> bytes:
    """A PKCS#12 file that Java takes for a trust store: it wants its own mark on the entry."""
    entry = pkcs12.PKCS12Certificate(certificate, b"ca")
    return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(PASSWORD.encode()))
