"""What `jwks` needs of the `cryptography` package: importing this file is what requires it."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

__all__ = ["InvalidSignature", "ec", "encode_dss_signature", "hashes", "padding", "rsa"]
