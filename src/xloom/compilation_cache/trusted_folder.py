"""Folders and files that no other user can have written: only from these comes what is run as code.

They belong to this user or to root, and no other user may write to them or put something in their place.
"""

from __future__ import annotations

import os
import secrets
import stat
import warnings
from contextlib import suppress

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_LINKS = 40
"""So many symbolic links on the way to a folder are no circle."""

_found: dict[str, tuple[str, tuple[int, ...]]] = {}
"""Where folders really are that were looked at before, and what they were then: the way there is walked once."""
_warned: set[str] = set()


class UntrustedError(OSError):
    """Another user could have written what is at `place`; `mend` is a command that changes that."""

    def __init__(self, place: str, reason: str, mend: str):
        super().__init__(f"{place} {reason}")
        self.mend = mend


class CacheWarning(UserWarning):
    """What is kept for later processes is not used."""


def warn_once(folder: str | os.PathLike[str], error: UntrustedError) -> None:
    """Says that a folder is not used, and what to do about it; once for each place that is wrong."""
    if str(error) in _warned:
        return
    _warned.add(str(error))
    text = f"what is kept in {os.fspath(folder)} is ignored, for it is run as code and {error}"
    warnings.warn(f"{text}\n  hint: {error.mend}, or set XLOOM_CACHE_DIR to a folder of your own", CacheWarning, 3)


def real_folder(path: str | os.PathLike[str], *, create: bool = False) -> str:
    """Where a folder really is. Makes what is missing of it, for this user alone, if asked to.

    Raises UntrustedError when another user can write to it or put another one in its place, OSError when there is none.
    """
    whole = os.path.abspath(path)
    known = _found.get(whole)
    if known is not None:
        with suppress(OSError):
            if _identity(os.lstat(known[0])) == known[1]:
                return known[0]
    found = _walked(whole, create)
    _found[whole] = found, _identity(os.lstat(found))
    return found


def read(folder: str, name: str) -> bytes:
    """The contents of a file of a real folder. Raises UntrustedError or OSError, as `real_folder` does."""
    within = _opened(folder)
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=within)
        with open(file, "rb") as opened:
            status = os.fstat(file)
            _check(f"{folder}/{name}", status)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"{folder}/{name} is no file")
            return opened.read()
    finally:
        os.close(within)


def write(folder: str, name: str, data: bytes) -> None:
    """Writes a file of a real folder: others see all of it or nothing. Raises as `read`."""
    within = _opened(folder)
    temporary = f"{name}.{os.getpid()}.{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600, dir_fd=within), "wb") as file:
            file.write(data)
        os.replace(temporary, name, src_dir_fd=within, dst_dir_fd=within)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=within)
        raise
    finally:
        os.close(within)


def _opened(folder: str) -> int:
    within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check(folder, os.fstat(within))
    except BaseException:
        os.close(within)
        raise
    return within


def _walked(path: str, create: bool) -> str:
    """The folder that `path` leads to. Each step is safe from others because the one before it is."""
    at, links = "/", 0
    _check(at, os.lstat(at), is_shared=True)
    waiting = path.split("/")[::-1]
    while waiting:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        place = os.path.join(at, name)
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            if not create:
                raise
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(place, 0o700)
            status = os.lstat(place)
        if stat.S_ISLNK(status.st_mode):
            _check_owner(place, status)
            target, links = os.readlink(place), links + 1
            if links > _LINKS:
                raise OSError(f"{path} leads through too many symbolic links")
            waiting += target.split("/")[::-1]
            at = "/" if target.startswith("/") else at
        elif stat.S_ISDIR(status.st_mode):
            _check(place, status, is_shared=True)
            at = place
        else:
            raise NotADirectoryError(f"{place} is no folder")
    _check(at, os.lstat(at))
    return at


def _check(place: str, status: os.stat_result, *, is_shared: bool = False) -> None:
    """Raises UntrustedError where others may write.

    In a shared folder they may if it is sticky: there only the owner of an entry puts another one in its place.
    """
    _check_owner(place, status)
    if status.st_mode & _OTHERS and not (is_shared and status.st_mode & stat.S_ISVTX):
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        raise UntrustedError(place, f"may be written by other users (its mode is {mode})", f"chmod go-w '{place}'")


def _check_owner(place: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        reason = f"belongs to another user (number {status.st_uid})"
        raise UntrustedError(place, reason, f"remove '{place}'")


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mode, status.st_uid, os.geteuid()
