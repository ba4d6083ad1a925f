"""Reading and writing whole files, with errors that name the path."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from placewright.support.errors import InputError, shown


def read_bytes(path: str | Path) -> bytes:
    """Read a regular file, or the target of a link to one.

    Raises InputError naming the path and the reason; a pipe or device, which might never end, is not opened.
    """
    try:
        _refuse_special(os.stat(path).st_mode)
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read '{shown(path)}': {_reason(error)}") from error


def read_text(path: str | Path) -> str:
    """Read a text file in UTF-8, without a byte order mark. Raises InputError as `read_bytes` does."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown(path)}: not a text file in UTF-8") from error


def make_folder(path: str | Path) -> None:
    """Make the folder and its parents if they are missing. Raises InputError naming the path and the reason."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot make folder '{shown(path)}': {_reason(error)}") from error


def lock_folder(path: str | Path, busy: str) -> int:
    """Lock a folder against other processes; return a descriptor that holds the lock until it is closed, however the
    process ends. busy: the beginning of the sentence for when another process holds the lock. Raises InputError then,
    and if there is no folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot read '{shown(path)}': {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(f"{busy} '{shown(path)}'; let it end or choose another") from error
    except OSError:
        # Some network file systems have no locks; the work goes on without one there.
        return descriptor
    return descriptor


@contextmanager
def locked_folder(path: str | Path, busy: str) -> Iterator[None]:
    """Make the folder if it is missing, and lock it within this context, as by `lock_folder`."""
    make_folder(path)
    descriptor = lock_folder(path, busy)
    try:
        yield
    finally:
        os.close(descriptor)


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all: first to a temporary file in its folder, then renamed.

    A link is followed. Raises InputError naming the path and the reason (missing folder, no permission, disk full, not
    a regular file); the previous file is then untouched.
    """
    beside = None
    try:
        target = Path(os.path.realpath(path))
        mode = _mode_for(target)
        descriptor, beside = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, mode)
        os.replace(beside, target)
    except BaseException as error:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)
        if isinstance(error, OSError | ValueError):
            raise InputError(f"cannot write '{shown(path)}': {_reason(error)}") from error
        raise


def _mode_for(target: Path) -> int:
    """Return the permissions of a direct write: the file's present ones, else the process's default."""
    try:
        present = os.stat(target).st_mode
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
    _refuse_special(present)
    return stat.S_IMODE(present)


def _refuse_special(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise ValueError("Is a directory")
    if not stat.S_ISREG(mode):
        raise ValueError("it exists and is not a regular file")


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
