"""Manifests: what an installation consists of, with sizes, hashes, and the place where each hash was published.

A manifest is data from outside until `load` has checked it. Its schema is the types below; `schema_document` writes it as JSON Schema.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from cuttle.errors import StackError

FOLDER = Path(__file__).parent / "manifests"
CHANNELS = ("stable", "latest")
MOST_MANIFEST_BYTES = 1 << 20
# Of assets whose size nobody published.
MOST_DOWNLOAD_BYTES = 4 << 30

# `$` alone also matches in front of a newline at the end.
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,31}$(?!\n)")]
Version = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+_-]{0,47}$(?!\n)")]
FileName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+_-]{0,127}$(?!\n)")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
Platform = Literal["windows", "linux"]


class Asset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file of a release.

    `kind`: `engine` and `libtorch` are archives that are unpacked; an `installer` is only ever named, the user runs it.
    `sha256` null: nobody published one; `why_no_hash` says so, and the asset refuses to install.
    """

    name: Name
    kind: Literal["engine", "libtorch", "installer"]
    platform: Platform
    version: Version
    file: FileName
    urls: list[str]
    size_bytes: Size | None
    sha256: Sha256 | None
    hash_source: str
    why_no_hash: str = ""
    unpacked_bytes_limit: Size | None = None

    @property
    def component(self) -> str:
        """Its folder in an installation: `zluda-v6-preview.69`."""
        return f"{self.name}-{self.version}"

    def require_hash(self) -> str:
        """The hash, or STK-0102."""
        if self.sha256 is None:
            raise StackError("STK-0102", f"{self.file} ({self.name} {self.version}): {self.why_no_hash}")
        return self.sha256


class HipSdk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The HIP that the channel is meant for. `majors` are those that are accepted."""

    version: str
    majors: list[int]
    page: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A channel. `checked` is the day on which somebody last looked up the hashes."""

    schema: Literal[1]
    channel: Name
    checked: datetime.date
    hip_sdk: HipSdk
    assets: list[Asset]

    def asset(self, name: str, platform: str) -> Asset:
        """The asset of a platform; STK-0104 if there is none."""
        for asset in self.assets:
            if asset.name == name and asset.platform == platform:
                return asset
        raise StackError("STK-0104", f"the manifest {self.channel} has no asset {name} for {platform}")


def allowed_address(url: str) -> bool:
    """HTTPS, or HTTP to this machine itself; no user name, no password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018  (raises if it is no number)
    except ValueError:
        return False
    if not host or parts.username is not None or parts.password is not None or re.search(r"[\s\x00-\x1f]", url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in ("127.0.0.1", "::1", "localhost"))


def parse(data: bytes, origin: str) -> Manifest:
    """A manifest from its JSON, checked. Raises STK-0101."""
    if len(data) > MOST_MANIFEST_BYTES:
        raise StackError("STK-0101", f"{origin} is longer than {MOST_MANIFEST_BYTES} bytes")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StackError("STK-0101", f"{origin}: {error}") from None
    problem = _problem_of(manifest)
    if problem:
        raise StackError("STK-0101", f"{origin}: {problem}")
    return manifest


def _problem_of(manifest: Manifest) -> str:
    """What the types alone cannot refuse; empty if nothing."""
    seen = set()
    for asset in manifest.assets:
        key = (asset.name, asset.platform)
        if key in seen:
            return f"{asset.name} for {asset.platform} stands twice"
        seen.add(key)
        if PurePosixPath(asset.file).name != asset.file or asset.file.endswith("."):
            return f"{asset.file} is no file name"
        for url in asset.urls:
            if not allowed_address(url):
                return f"{url} is no HTTPS address"
        if asset.sha256 is None and not asset.why_no_hash:
            return f"{asset.file} has no hash and does not say why"
        if asset.sha256 is not None and not asset.hash_source:
            return f"{asset.file} does not say where its hash comes from"
        if asset.sha256 is not None and not asset.urls:
            return f"{asset.file} has a hash but no address"
    if not all(1 <= major <= 99 for major in manifest.hip_sdk.majors):
        return "hip_sdk.majors are no versions"
    return ""


def load(channel: str, file: Path | None = None) -> Manifest:
    """The manifest of a channel, or the one in `file`. Raises STK-0103 or STK-0101."""
    if file is None:
        if channel not in CHANNELS:
            raise StackError("STK-0103", f"there is no channel {channel}; there are {', '.join(CHANNELS)}")
        file = FOLDER / f"{channel}.json"
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_MANIFEST_BYTES + 1)
    except OSError as error:
        raise StackError("STK-0103", f"{file}: {error.strerror}") from None
    return parse(data, file.name)


def encode(manifest: Manifest) -> bytes:
    """The JSON of a manifest, as it stands in files."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def hash_file(path: Path) -> tuple[str, int]:
    """(SHA-256, size in bytes) of a file."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
        return digest.hexdigest(), stream.tell()


def pin(
    base: Manifest, channel: str, files: Mapping[str, Path], platform: str, urls: Mapping[str, str], versions: Mapping[str, str]
) -> Manifest:  # fmt: skip
    """A new manifest: `base` with the assets named in `files` replaced by files at hand (their size, hash and name).

    `urls` gives an asset another address (else it is that of the base if the file name is the same), `versions` another version.
    Raises STK-0106.
    """
    assets = list(base.assets)
    for name, path in files.items():
        places = [i for i, asset in enumerate(assets) if asset.name == name and asset.platform == platform]
        if not places:
            raise StackError("STK-0106", f"{base.channel} has no asset {name} for {platform}")
        old = assets[places[0]]
        try:
            digest, size = hash_file(path)
        except OSError as error:
            raise StackError("STK-0106", f"{path}: {error.strerror}", hint="Check the path.") from None
        if size == 0:
            raise StackError("STK-0106", f"{path} is empty")
        # A file of another name is another file: the old addresses do not hold it.
        addresses = [urls[name]] if name in urls else list(old.urls) if path.name == old.file else []
        if not addresses:
            raise StackError("STK-0106", f"{path.name} has no address", hint=f"Add --url {name}=https://...")
        try:
            assets[places[0]] = msgspec.convert(
                {
                    **msgspec.to_builtins(old),
                    "file": path.name,
                    "version": versions.get(name, old.version),
                    "urls": addresses,
                    "size_bytes": size,
                    "sha256": digest,
                    "hash_source": "pinned from a file at hand",
                    "why_no_hash": "",
                },
                Asset,
            )
        except msgspec.ValidationError as error:
            raise StackError("STK-0106", f"{path.name}: {error}") from None
    manifest = msgspec.structs.replace(base, channel=channel, checked=datetime.date.today(), assets=assets)
    # Whoever reads it checks it: so must what is written.
    return parse(encode(manifest), "the new manifest")


def schema_document() -> dict[str, Any]:
    """JSON Schema of manifests."""
    return msgspec.json.schema(Manifest)
