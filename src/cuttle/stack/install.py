"""Installing, verifying and uninstalling components: each a transaction of `journal.py`."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from cuttle.abi import knobs
from cuttle.abi.stack_engines import BY_NAME
from cuttle.errors import StackError
from cuttle.stack.archive import unpack
from cuttle.stack.download import Patience, fetch, take
from cuttle.stack.journal import Component, InstalledFile, Journal, Root, remove_tree, write_error
from cuttle.stack.manifest import Asset, Manifest, hash_file

# Room that is kept besides what is installed.
SPARE_BYTES = 64 << 20

# (what is going on, bytes done, bytes in all)
Progress = Callable[[str, int, int | None], None]


def silent(what: str, done: int, total: int | None) -> None:
    """Progress for callers that show none."""


def default_root() -> Path:
    """Where installations lie: the knob CUTTLE_STACK_DIR, else the platform's folder for data of programs."""
    chosen = knobs.STACK_DIR.text()
    if chosen:
        return Path(chosen).absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("cuttle", appauthor=False)) / "stack"


def this_platform() -> str:
    """`windows` or `linux`."""
    return "windows" if platform.system() == "Windows" else "linux"


class Difference(msgspec.Struct, frozen=True):
    """A file that is not as it was installed. `what`: missing, changed, replaced by something else, unreadable."""

    component: str
    path: str
    what: str


class ComponentState(msgspec.Struct, frozen=True):
    """A component: its version and number of files."""

    version: str
    files: int


class VerifyResult(msgspec.Struct, frozen=True):
    """The data of `verify`."""

    components: dict[str, ComponentState]
    differences: list[Difference]


class RemovedComponent(msgspec.Struct, frozen=True):
    """A component that was there."""

    name: str
    version: str


class UninstallResult(msgspec.Struct, frozen=True):
    """The data of `uninstall`."""

    removed: list[RemovedComponent]


def find_home(asset: Asset, files: Sequence[InstalledFile]) -> str:
    """The folder that holds an engine's driver, or LibTorch's `lib`: releases wrap them in folders of different names. Raises STK-0302."""
    names = {"libtorch": ("build-version",)}.get(asset.kind) or tuple(
        name for file in BY_NAME[asset.name].files if file.required for name in getattr(file, asset.platform)
    )
    homes = [PurePosixPath(file.path).parent for file in files if PurePosixPath(file.path).name.lower() in names]
    if not homes:
        raise StackError("STK-0302", f"{asset.file} does not hold {names[0]}")
    home = min(homes, key=lambda path: (len(path.parts), str(path)))
    return "" if str(home) == "." else str(home)


def room_needed(asset: Asset) -> int:
    """Bytes that an asset needs while it is installed: the download, and what is unpacked, for which three times the archive is enough in the
    releases that were looked at (LibTorch: less than two)."""
    return 4 * (asset.size_bytes or 0) + SPARE_BYTES


def install_asset(
    root: Root,
    asset: Asset,
    mirrors: Sequence[str] = (),
    progress: Progress = silent,
    patience: Patience | None = None,
    at_hand: Path | None = None,
) -> tuple[Component, bool]:
    """Installs one asset under the root's lock; (component, whether anything had to be done). `at_hand`: the file, which need not be fetched.

    Raises STK-01xx to STK-04xx; nothing is half-installed then, and a download goes on where it stopped.
    """
    digest = asset.require_hash()
    if asset.kind == "installer":
        raise StackError("STK-0102", f"{asset.file} is an installer: run it yourself")
    there = root.installed().components.get(asset.name)
    if there is not None and there.asset_sha256 == digest and not differences(root, there):
        return there, False
    try:
        root.downloads.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(error, root.downloads) from None
    require_room(root.path, asset)
    root.step("before the download")
    if at_hand is not None:
        archive = take(asset, at_hand)
    else:
        report = functools.partial(progress, f"fetching {asset.file}")
        archive = fetch(asset, root.downloads, mirrors, report, patience)
    root.step("downloaded")
    staging = asset.component
    root.announce(Journal("unpacking", staging))
    try:
        remove_tree(root.staging)
        files = unpack(
            archive,
            root.staging / staging,
            asset.unpacked_bytes_limit,
            lambda done, total: progress(f"unpacking {asset.file}", done, total),
        )
        root.step("unpacked")
        records = [InstalledFile(file.path, file.size_bytes, file.sha256) for file in files]
        component = Component(
            name=asset.name,
            kind="libtorch" if asset.kind == "libtorch" else "engine",
            version=asset.version,
            folder=asset.component,
            home=find_home(asset, records),
            asset_file=asset.file,
            asset_sha256=digest,
            files=records,
        )
    except StackError:
        # Rolled back at once; a kill in between is for the next run.
        remove_tree(root.staging)
        root.settle()
        raise
    placing = Journal("placing", staging, component, there.folder if there is not None else None)
    root.announce(placing)
    root.place(placing)
    # The archive is only needed again if files are damaged, and then it can be fetched again.
    if at_hand is None:
        with contextlib.suppress(OSError):
            archive.unlink()
    return component, True


def component_home(root: Root, component: Component) -> Path:
    """The folder of a component's libraries."""
    return root.path / component.folder / component.home


def require_room(folder: Path, asset: Asset) -> None:
    """Raises STK-0401 if an asset of known size cannot fit."""
    free = shutil.disk_usage(folder).free
    if free < room_needed(asset):
        raise StackError(
            "STK-0401",
            f"{folder} has {free:,} bytes free; {asset.file} needs about {room_needed(asset):,} while it is installed",
        )


def choose_engine(root: Root, manifest: Manifest, engine: str) -> None:
    """Records which engine `run` takes by default, and the channel."""
    root.write_installed(msgspec.structs.replace(root.installed(), channel=manifest.channel, engine=engine))


def differences(root: Root, component: Component) -> list[Difference]:
    """Files of a component that are not as they were installed."""
    found = []
    for file in component.files:
        path = root.path / component.folder / file.path
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                what = "replaced by something that is no file"
            elif status.st_size != file.size_bytes or hash_file(path)[0] != file.sha256:
                what = "changed"
            else:
                continue
        except FileNotFoundError:
            what = "missing"
        except OSError as error:
            what = f"unreadable: {error.strerror}"
        found.append(Difference(component.name, f"{component.folder}/{file.path}", what))
    return found


def verify(root: Root, names: Sequence[str] = ()) -> VerifyResult:
    """Compares what is installed with its records. Raises STK-0405 for names that are not installed."""
    record = root.installed()
    for name in names:
        if name not in record.components:
            raise StackError("STK-0405", f"{name} is not installed in {root.path}")
    chosen = {name: component for name, component in record.components.items() if not names or name in names}
    return VerifyResult(
        {name: ComponentState(component.version, len(component.files)) for name, component in chosen.items()},
        [difference for component in chosen.values() for difference in differences(root, component)],
    )


def uninstall(root: Root, names: Sequence[str] = ()) -> UninstallResult:
    """Removes components (all if none is named) under the root's lock. Files in their folders that are not theirs stay."""
    record = root.installed()
    for name in names:
        if name not in record.components:
            raise StackError("STK-0405", f"{name} is not installed in {root.path}")
    removed = []
    for name in names or list(record.components):
        component = record.components[name]
        root.announce(Journal("removing", component.folder, component))
        root.remove(component)
        removed.append(RemovedComponent(component.name, component.version))
    if not root.installed().components:
        remove_tree(root.downloads)
    return UninstallResult(removed)
