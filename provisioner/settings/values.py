"""How the text of a variable is read: each function takes the environment and a name, and gives a value.

All of them raise `RejectedError` that names the variable, says what it wants and shows what it found, unless that may
be a secret. A variable that is empty counts as not set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args
from urllib.parse import SplitResult, urlsplit

from provisioner.domain.duration import go_duration, parse_go_duration
from provisioner.domain.errors import RejectedError
from provisioner.domain.snapshot import Balance

Environ = Mapping[str, str]

_LONGEST_SECRET = 512
NO_SECRET = f"not one line of 1 to {_LONGEST_SECRET} visible ASCII characters"
_SHOWN_CHARACTERS = 80
_NUMBER = re.compile(r"[0-9]{1,15}")
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_URL = re.compile(r"[\x21-\x7e]+")
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_NAME = re.compile(r"[^\x00-\x20,\x7f]{1,256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """A host and port to listen on; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bad_setting(variable: str, wants: str, found: str | None, example: str) -> RejectedError:
    """The error for a variable of which the value cannot be used; `found` None is not to be shown."""
    shown = "" if found is None else f", found: {found[:_SHOWN_CHARACTERS]!r}"
    return RejectedError(
        f"reading the environment: {variable} wants {wants}{shown}",
        reason="BadSetting",
        hint=f"for example {variable}={example}",
    )


def parse_listen(variable: str, value: str) -> Listen:
    """Read `host:port`, `[v6]:port` or `:port` (every address). Raises RejectedError that names the variable."""
    host, colon, port = value.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise bad_setting(variable, "host:port or :port", value, "127.0.0.1:8080")
    return Listen(host=host.strip("[]") or "0.0.0.0", port=int(port))  # noqa: S104 - `:port` means every address of IPv4


def switch(environ: Environ, variable: str, *, default: bool) -> bool:
    """`on` or `off`."""
    value = environ.get(variable)
    if not value:
        return default
    if value.lower() not in ("on", "off"):
        raise bad_setting(variable, "on or off", value, "on")
    return value.lower() == "on"


def balance(environ: Environ, variable: str) -> Balance | None:
    """How requests are spread over replicas; None when it is not set."""
    value = environ.get(variable)
    if not value:
        return None
    found = next((known for known in get_args(Balance) if known == value), None)
    if found is None:
        raise bad_setting(variable, " or ".join(get_args(Balance)), value, "round-robin")
    return cast("Balance", found)


def days(environ: Environ, variable: str, default: int) -> int:
    """A number of days, 1 to a hundred years."""
    value = environ.get(variable) or str(default)
    if not (_NUMBER.fullmatch(value) and 1 <= int(value) <= 36_500):
        raise bad_setting(variable, "1 to 36500 days", value, str(default))
    return int(value)


def number(environ: Environ, variable: str, default: int, *, least: int = 0, most: int = 1_000_000_000) -> int:
    """A whole number within its bounds."""
    found = optional_number(environ, variable, least=least, most=most)
    return default if found is None else found


def optional_number(environ: Environ, variable: str, *, least: int = 0, most: int = 1_000_000_000) -> int | None:
    """A whole number within its bounds; None when it is not set."""
    value = environ.get(variable)
    if not value:
        return None
    if not (_NUMBER.fullmatch(value) and least <= int(value) <= most):
        raise bad_setting(variable, f"a whole number from {least} to {most}", value, str(max(least, 1)))
    return int(value)


def positive_decimal(environ: Environ, variable: str, default: float) -> float:
    """A number above 0, such as 3.4."""
    value = environ.get(variable) or str(default)
    if not _DECIMAL.fullmatch(value) or not float(value):
        raise bad_setting(variable, "a number above 0", value, str(default))
    return float(value)


def duration(environ: Environ, variable: str, default: float, *, may_be_none: bool = False) -> float:
    """Seconds, written as Go writes durations: `10s`, `1m30s`. Zero only where it means none."""
    value = environ.get(variable)
    if not value:
        return default
    try:
        seconds = parse_go_duration(value)
    except ValueError:
        seconds = -1.0
    if seconds < 0 or (not seconds and not may_be_none):
        kind = "a duration" if may_be_none else "a duration above 0"
        raise bad_setting(variable, f"{kind} with its unit", value, go_duration(default))
    return seconds


def url(environ: Environ, variable: str, default: str) -> str:
    """An http or https URL."""
    value = environ.get(variable) or default
    if split_url(value) is None:
        raise bad_setting(variable, "an http or https URL", None if "@" in value else value, "http://127.0.0.1:8400")
    return value


def split_url(value: str) -> SplitResult | None:
    """The parts of an http or https URL; None for anything else: half a bracket, a port that is none, a space in it."""
    try:
        parts = urlsplit(value)
        is_url = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.netloc[-1] != ":"
        )
    except ValueError:
        return None
    return parts if is_url and _URL.fullmatch(value) else None


def path(environ: Environ, variable: str, default: Path) -> Path:
    """A file or folder; `~` is the user's own folder."""
    return optional_path(environ, variable) or default


def optional_path(environ: Environ, variable: str) -> Path | None:
    """A file or folder, if one is named."""
    value = environ.get(variable)
    return Path(value).expanduser() if value else None


def written_file(environ: Environ, variable: str) -> Path | None:
    """A file that lines are added to, if one is named. It is made where there is none, for its owner only, so that what
    cannot be written is known at the start."""
    found = optional_path(environ, variable)
    if found is None:
        return None
    try:
        os.close(os.open(found, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise RejectedError(
            f"opening {variable} `{found}` to write: {error.strerror}",
            reason="BadSetting",
            hint="name a file in a folder that is there and may be written to, or leave it out",
        ) from error
    return found


def home(environ: Environ, variable: str, default: str) -> Path:
    """Our folder in one of the user's own, as the XDG base directories have it."""
    return Path(environ.get(variable) or default).expanduser() / "tenantry"


def names(environ: Environ, variable: str) -> tuple[str, ...] | None:
    """Names with commas between them, each once; None when it is not set."""
    value = environ.get(variable)
    if not value:
        return None
    found = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not found or not all(map(_NAME.fullmatch, found)):
        raise bad_setting(variable, "names with commas between them", value, "one,two")
    return found


def name(environ: Environ, variable: str) -> str | None:
    """One name; None when it is not set."""
    value = environ.get(variable)
    if value and not _NAME.fullmatch(value):
        raise bad_setting(variable, "one name without spaces", value, "one")
    return value or None


def field_name(environ: Environ, variable: str, default: str) -> str:
    """The name of a header field."""
    value = environ.get(variable) or default
    if not _FIELD_NAME.fullmatch(value):
        raise bad_setting(variable, "the name of a header field", value, default)
    return value


def read_secret(what: str, file: Path, *, hint: str) -> str:
    """The one line of a file with a secret. Raises RejectedError that names the file, never its content."""
    try:
        with file.open("rb") as stream:
            secret = stream.read(_LONGEST_SECRET + 1).decode("ascii").strip()
    except OSError as error:
        raise RejectedError(f"reading the {what} `{file}`: {error.strerror}", reason="NoSecret", hint=hint) from error
    except UnicodeDecodeError:
        secret = ""
    if not is_secret(secret):
        raise RejectedError(f"reading the {what} `{file}`: {NO_SECRET}", reason="NoSecret", hint=hint)
    return secret


def is_secret(text: str) -> bool:
    """Whether it is one line of visible characters of a length that a secret may have."""
    return text.isascii() and text.isprintable() and 0 < len(text) <= _LONGEST_SECRET
