"""What has the form, or the name, of a credential. Pure; rules about secrets ask it, and previews mask by it."""

from __future__ import annotations

import re

from provisioner.lint.values import has_hole

PRIVATE_KEY = "a private key"
_FORMS = (
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")),
    ("an OpenAI key", re.compile(r"\bsk-(proj-)?[A-Za-z0-9_-]{32,}\b")),
    ("an AWS access key", re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a GitHub token", re.compile(r"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})\b")),
    ("a GitLab token", re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}\b")),
    ("an NVIDIA API key", re.compile(r"\bnvapi-[A-Za-z0-9_-]{40,}\b")),
    ("a Slack token", re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{20,}\b")),
    (PRIVATE_KEY, re.compile(r"-----BEGIN ([A-Z]+ )?PRIVATE KEY-----")),
)
_LAST_WORDS = frozenset(["token", "password", "passwd", "secret", "apikey", "credentials", "passphrase"])
_ENDINGS = (
    ("master", "key"),
    ("signing", "key"),
    ("encryption", "key"),
    ("api", "key"),
    ("access", "key"),
    ("secret", "key"),
    ("private", "key"),
    ("auth", "key"),
)
_NO_SECRET = re.compile(
    r"(?i)(|none|null|empty|true|false|[0-9.]+|<.*>|\$.*|/.*|\*+|x{3,}|"
    r".*(no-?key|not-?(needed|used|required)|placeholder|dummy|example|redacted|replace|change|fake|todo|your-|set-me).*)"
)
_PASSWORD_IN_URL = re.compile(r"\b[a-z][a-z0-9+]*://[^/\s:@]+:([^/\s:@$({]+)@")


def is_secret_name(name: str) -> bool:
    """Whether a variable, key or field of this name usually holds a credential."""
    words = [word for word in re.split(r"[_.\-]|(?<=[a-z])(?=[A-Z])", name) if word]
    lower = [word.lower() for word in words]
    return bool(lower) and (lower[-1] in _LAST_WORDS or tuple(lower[-2:]) in _ENDINGS)


def known_form(value: str) -> str | None:
    """What kind of credential a text has the form of, such as `an AWS access key`; None for any other text."""
    return next((what for what, form in _FORMS if form.search(value)), None)


def looks_secret(name: str, value: str) -> bool:
    """Whether a text under a name is probably a credential: by its name, or as a URL with a password."""
    by_name = is_secret_name(name) and not _NO_SECRET.fullmatch(value) and not has_hole(value) and "\n" not in value
    return by_name or bool(_PASSWORD_IN_URL.search(value))
