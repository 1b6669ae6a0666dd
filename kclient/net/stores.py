"""Files that hold certificates in another format than PEM: which one, and the command that makes PEM of it.

Nothing here opens a store. `tls` asks when a file has no certificate that it can read.
"""

from __future__ import annotations

from pathlib import Path

_JAVA_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_SEQUENCE = b"\x30"  # how both a certificate in binary and a PKCS#12 store begin
_PKCS12_VERSION = b"\x02\x01\x03"
_HEAD = 16


def kind_of_store(path: Path, *, with_key: bool = False) -> str | None:
    """What a file is, if its first bytes tell, and how to convert it; `with_key`: its private key too."""
    head = path.read_bytes()[:_HEAD]
    to_pem = "kclient reads PEM, so convert it:"
    java = next((kind for magic, kind in _JAVA_STORES.items() if head.startswith(magic)), None)
    if java is not None:
        pkcs12 = f"{path.name}.p12"
        command = f"keytool -list -rfc -keystore {path.name} > {path.stem}.pem"
        if with_key:
            command = (
                f"keytool -importkeystore -srckeystore {path.name} -destkeystore {pkcs12} "
                f"-deststoretype PKCS12; openssl pkcs12 -in {pkcs12} -nodes -out {path.stem}.pem"
            )
        return f"one of Java's key stores ({java}); {to_pem} {command}"
    if not head.startswith(_SEQUENCE):
        return None
    if _PKCS12_VERSION in head:
        keys = "-nodes" if with_key else "-nokeys"
        return f"a PKCS#12 store; {to_pem} openssl pkcs12 -in {path.name} {keys} -out {path.stem}.pem"
    return (
        f"a certificate in binary (DER); {to_pem} "
        f"openssl x509 -inform der -in {path.name} -out {path.stem}.pem"
    )
