"""The search for planted secrets: what they look like on their way, and all that an exception tells."""

from __future__ import annotations

import base64
import io
import logging
import pickle
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote_plus

import kclient

# A checkout may be in a directory of the same name: only what is in the package counts.
_PACKAGE = kclient.__path__[0]


def forms(secret: str, user: str = "alice") -> list[str]:
    """A secret as it is, quoted, and in base64 after various beginnings."""
    encoded = [f"{before}{secret}".encode() for before in ("", "a", "ab", f"{user}:")]
    found = [secret, quote_plus(secret), repr(secret.encode())[2:-1]]
    return found + [base64.b64encode(each).decode()[-12:-4] for each in encoded]


@contextmanager
def everything_logged() -> Iterator[io.StringIO]:
    """What any logger says, at any level; pytest's `caplog` forgets it before a fixture ends."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


def told(error: BaseException) -> str:
    """The exception in every form, and the variables of the frames that are in kclient.

    Crash reporters show those.
    """
    chained = "".join(traceback.format_exception(error))
    frames = [
        f"{name} = {_shown(value)}"
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename.startswith(_PACKAGE)
        for name, value in frame.f_locals.items()
    ]
    context = error.__cause__ or error.__context__
    deeper = told(context) if context is not None else ""
    return f"{error!r} {error} {error.args} {chained} {frames} {pickle.dumps(error)!r} {deeper}"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - an object whose constructor failed may have no repr
        return "<no repr>"
