"""Whole files: read, and written completely or not at all."""

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from placewright.support.errors import InputError
from placewright.support.files import read_bytes, read_text, write_atomically


def test_what_is_written_is_read_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"one")
    write_atomically(tmp_path / "a", b"two")
    assert read_bytes(tmp_path / "a") == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write '.*nowhere/a': No such file or directory"):
        write_atomically(tmp_path / "nowhere" / "a", b"")


@pytest.mark.parametrize(
    ("error", "expected", "sentence"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), InputError, r"cannot write '.*a': No space left on device"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
    ],
    ids=["a full disk", "an interruption"],
)
def test_what_ends_a_write_half_way_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, expected: type[BaseException], sentence: str
) -> None:
    write_atomically(tmp_path / "a", b"old")

    def fail(descriptor: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(expected, match=sentence):
        write_atomically(tmp_path / "a", b"new")
    monkeypatch.undo()
    assert read_bytes(tmp_path / "a") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("step", ["mkstemp", "fdopen", "fsync", "chmod", "replace"])
def test_whatever_step_of_a_write_fails_the_old_file_stays_and_the_sentence_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Any, reason: Any
) -> None:
    def fail(*arguments: Any, **more: Any) -> None:
        raise OSError(reason, os.strerror(reason))

    (tmp_path / "x.json").write_bytes(b"the old one")
    with monkeypatch.context() as patched:
        patched.setattr(tempfile if step == "mkstemp" else os, step, fail)
        with pytest.raises(InputError, match=rf"cannot write '.*x\.json': {os.strerror(reason)}"):
            write_atomically(tmp_path / "x.json", b"the new one")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x.json": b"the old one"}


def test_a_folder_cannot_be_written_over_or_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory"):
        write_atomically(tmp_path, b"")
    with pytest.raises(InputError, match=r"cannot read '.*': Is a directory"):
        read_bytes(tmp_path)


def test_permissions_are_those_of_any_new_file_and_stay_as_they_were_set(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "new", b"")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    (tmp_path / "new").chmod(0o600)
    write_atomically(tmp_path / "new", b"again")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_a_name_the_system_cannot_hold_is_bad_input(tmp_path: Path) -> None:
    for name in ("nul\0byte", "x" * 300):
        with pytest.raises(InputError, match="cannot write"):
            write_atomically(tmp_path / name, b"")
        with pytest.raises(InputError, match="cannot read"):
            read_bytes(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read", [read_bytes, read_text])
def test_a_pipe_is_neither_waited_for_nor_replaced(tmp_path: Path, read: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"cannot read '.*pipe': it exists and is not a regular file"):
        read(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"cannot write '.*pipe': it exists and is not a regular file"):
        write_atomically(tmp_path / "pipe", b"")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_device_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    with pytest.raises(InputError, match="is not a regular file"):
        read_bytes(tmp_path / "link")
    with pytest.raises(InputError, match="is not a regular file"):
        write_atomically(tmp_path / "link", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "target")
    for data in (b"new", b"again"):
        write_atomically(tmp_path / "link", data)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "folder" / "target").read_bytes() == data
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["target"]


def test_a_link_to_itself_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match="cannot write"):
        write_atomically(tmp_path / "loop", b"")
    assert (tmp_path / "loop").is_symlink()


def test_text_is_utf_8_with_or_without_a_mark(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone")
    assert read_text(tmp_path / "a") == "one"
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(InputError, match="a: not a text file in UTF-8"):
        read_text(tmp_path / "a")
