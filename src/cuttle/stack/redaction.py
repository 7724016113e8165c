"""Taking out of texts what says who somebody is: names of users and hosts, folders of users, addresses, keys.

What we write ourselves holds none of it (`machine.py`); messages of other programs may. Redaction is by what this machine knows of itself, and by form.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Names of users and hosts that say nothing, and would be found in other words.
COMMON = frozenset(
    ("root", "user", "users", "admin", "administrator", "home", "localhost", "localdomain", "default", "public", "test", "runner", "build", "linux",
     "windows", "pc", "cuttle", "zluda", "amd", "nvidia", "gpu", "cuda", "hip")
)  # fmt: skip

_SECRET_NAME = re.compile(r"token|secret|password|passwd|api_?key|access_?key|credential|auth", re.IGNORECASE)

_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"([A-Za-z]:)?([/\\]{1,2})(Users|home|Benutzer|Utilisateurs)\2+[^/\\\s\"':;,)]+", re.IGNORECASE), r"\1\2\3\2(user)"),
    (re.compile(r"(https?://)[^/\s@]+@"), r"\1(credentials)@"),
    (re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\b"), "(mail address)"),
    (re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|xox[a-z]-[\w-]{10,})"), "(token)"),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"), "(token)"),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{12,}"), r"\1(token)"),
    (re.compile(r"(?i)\b(\w*(?:token|secret|password|passwd|api_?key|access_?key)\w*\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&]+)"), r"\1(secret)"),
    (re.compile(r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", re.IGNORECASE), "(hardware address)"),
    (re.compile(r"\b(?!127\.0\.0\.1\b|0\.0\.0\.0\b)(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}\b(?!\.\d)"), "(address)"),
    (re.compile(r"\bS-1-5-21-[0-9-]+\b"), "(user id)"),
    (re.compile(r"\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\bGPU-[0-9a-f]{16}\b"), "(GPU id)"),
)  # fmt: skip

# Four numbers between dots that are no addresses: versions of drivers.
_DRIVER_VERSION = re.compile(r"\b(?:\d{1,2}\.\d\.\d{4,5}\.\d{1,5}|10\.0\.\d{5}\.\d+)\b")


@dataclass(frozen=True, slots=True)
class Identity:
    """What this machine and its user are called. `secrets` are values of variables whose names say that they are secret."""

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    @classmethod
    def here(cls, environment: Mapping[str, str] | None = None) -> Identity:
        """This machine and user."""
        variables = os.environ if environment is None else environment
        users = {variables.get(name, "") for name in ("USER", "USERNAME", "LOGNAME", "SUDO_USER")}
        try:
            users.add(getpass.getuser())
        except (KeyError, OSError, ImportError):
            pass
        hosts = {
            socket.gethostname(),
            socket.gethostname().split(".")[0],
            variables.get("COMPUTERNAME", ""),
            variables.get("HOSTNAME", ""),
        }
        homes = {str(Path.home()), variables.get("USERPROFILE", ""), variables.get("HOME", "")}
        secrets = {value for name, value in variables.items() if _SECRET_NAME.search(name) and len(value) >= 8}
        return cls(*(tuple(sorted(filter(None, group), key=len, reverse=True)) for group in (users, hosts, homes, secrets)))  # fmt: skip


def redact(text: str, identity: Identity) -> str:
    """A text without what says who somebody is."""
    for secret in identity.secrets:
        text = text.replace(secret, "(secret)")
    for home in identity.homes:
        if len(home) > 3 and home not in ("/root", "/home"):
            text = re.sub(re.escape(home) + r"(?![\w-])", "~", text, flags=re.IGNORECASE)
            text = text.replace(home.replace("\\", "\\\\"), "~")
    versions: list[str] = []

    def keep(match: re.Match[str]) -> str:
        versions.append(match[0])
        return f"\x00{len(versions) - 1}\x00"

    text = _DRIVER_VERSION.sub(keep, text.replace("\x00", ""))
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    text = re.sub("\x00(\\d+)\x00", lambda match: versions[int(match[1])], text)
    for names, word in ((identity.users, "(user)"), (identity.hosts, "(host)")):
        for name in names:
            if len(name) > 2 and name.lower() not in COMMON:
                text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", word, text, flags=re.IGNORECASE)
    return text


def redact_document(value: Any, identity: Identity) -> Any:
    """A JSON document with every text in it redacted, names of fields included."""
    if isinstance(value, str):
        return redact(value, identity)
    if isinstance(value, list):
        return [redact_document(item, identity) for item in value]
    if isinstance(value, dict):
        return {redact(str(name), identity): redact_document(item, identity) for name, item in value.items()}
    return value
