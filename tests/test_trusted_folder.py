"""What is kept on disk is only used where no other user can have written it."""

import os
import shutil
import stat
import warnings
from pathlib import Path

import numpy as np
import pytest

import xloom as xl
from xloom.calls import register_c, registry
from xloom.compilation_cache import cache, trusted_folder
from xloom.cpu import kept_programs
from xloom.llvm import jit

TEXT = """HloModule m
ENTRY e {
  a = f32[64] parameter(0)
  ROOT s = f32[64] sine(a)
}"""
ANOTHER_USER = 12345
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "home" / "kept"
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(folder))
    monkeypatch.delenv("XLOOM_CACHE", raising=False)
    monkeypatch.setattr(cache, "is_current", lambda: True)
    monkeypatch.setattr(trusted_folder, "_warned", set())
    (tmp_path / "home").mkdir()
    forget()
    yield folder
    forget()


def forget() -> None:
    """Makes this process one that has compiled nothing."""
    cache.flush()
    kept_programs.linked.clear()
    jit.object_cache.clear()
    trusted_folder._found.clear()


def run_again(monkeypatch: pytest.MonkeyPatch) -> int:
    """Compiles and runs the program as a new process would; how much went through LLVM."""
    forget()
    made: list[str] = []
    original = jit._emitted
    with monkeypatch.context() as patch:
        patch.setattr(jit, "_emitted", lambda *given, **more: (made.append(given[0]), original(*given, **more))[1])
        x = np.linspace(-3, 3, 64, dtype=np.float32)
        np.testing.assert_allclose(xl.compile(xl.parse(TEXT))(x), np.sin(x), atol=1e-6)
    cache.flush()
    return len(made)


def test_it_is_made_for_this_user_alone(place: Path, monkeypatch: pytest.MonkeyPatch):
    before = os.umask(0)
    try:
        assert run_again(monkeypatch)
    finally:
        os.umask(before)
    found = [place, *place.rglob("*")]
    assert {stat.S_IMODE(p.stat().st_mode) for p in found if p.is_dir()} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in found if p.is_file()} == {0o600}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_again(monkeypatch) == 0


def opened_up(place: Path, what: str) -> Path:
    """Lets others write to one of the folders or to all entries; what the warning names."""
    drawers = [p for p in (place / "cpu").iterdir()]
    targets = {
        "the parent": [place.parent],
        "the folder": [place],
        "what is in it": [place / "cpu"],
        "the drawers": drawers,
        "the entries": [entry for drawer in drawers for entry in drawer.iterdir()],
    }[what]
    for target in targets:
        target.chmod(target.stat().st_mode | 0o002)
    return targets[0]


@pytest.mark.parametrize("what", ["the parent", "the folder", "what is in it", "the drawers", "the entries"])
def test_where_others_may_write_nothing_is_read(place: Path, monkeypatch: pytest.MonkeyPatch, what: str):
    assert run_again(monkeypatch)
    opened_up(place, what)
    with pytest.warns(
        trusted_folder.CacheWarning, match=r"may be written by other users(.|\n)*chmod go-w .*XLOOM_CACHE_DIR"
    ) as told:
        assert run_again(monkeypatch)
        run_again(monkeypatch)
    assert len({str(warning.message) for warning in told}) == len(told)
    for target in [place.parent, *place.parent.rglob("*")]:
        target.chmod(target.stat().st_mode & ~0o022)
    assert run_again(monkeypatch) == 0, "mended, it is used again"


@needs_root
@pytest.mark.parametrize("what", ["folder", "drawer", "entry", "link"])
def test_what_belongs_to_another_user_is_not_read(place: Path, monkeypatch: pytest.MonkeyPatch, what: str):
    assert run_again(monkeypatch)
    if what == "link":
        place.rename(place.parent / "elsewhere")
        place.symlink_to("elsewhere")
        assert run_again(monkeypatch) == 0
        os.chown(place, ANOTHER_USER, -1, follow_symlinks=False)
    for path in [place] if what == "folder" else (place / "cpu").iterdir() if what == "drawer" else []:
        os.chown(path, ANOTHER_USER, -1)
    for path in (place / "cpu").rglob("*") if what == "entry" else []:
        if path.is_file():
            os.chown(path, ANOTHER_USER, -1)
    with pytest.warns(trusted_folder.CacheWarning, match="belongs to another user"):
        assert run_again(monkeypatch)


def test_a_sticky_parent_is_safe_where_the_folder_is_ours(place: Path, monkeypatch: pytest.MonkeyPatch):
    assert run_again(monkeypatch)
    place.parent.chmod(0o1777)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_again(monkeypatch) == 0
    if os.getuid() == 0:
        os.chown(place, ANOTHER_USER, -1)  # who made it there first
        with pytest.warns(trusted_folder.CacheWarning, match="belongs to another user"):
            assert run_again(monkeypatch)


def test_a_folder_that_is_sticky_itself_is_not_read(place: Path, monkeypatch: pytest.MonkeyPatch):
    assert run_again(monkeypatch)
    (place / "cpu").chmod(0o1777)
    with pytest.warns(trusted_folder.CacheWarning, match="may be written"):
        assert run_again(monkeypatch)


def test_links_are_followed_and_circles_found(tmp_path: Path):
    (tmp_path / "a").mkdir(mode=0o700)
    (tmp_path / "there").symlink_to("a/../a")
    (tmp_path / "round").symlink_to("round")
    assert trusted_folder.real_folder(tmp_path / "there") == os.path.realpath(tmp_path / "a")
    with pytest.raises(OSError, match="too many symbolic links"):
        trusted_folder.real_folder(tmp_path / "round")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        trusted_folder.real_folder(tmp_path / "file" / "in", create=True)


def test_an_entry_that_is_no_file_is_none(tmp_path: Path):
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "pipe")
    folder = trusted_folder.real_folder(tmp_path)
    assert trusted_folder.read(folder, "real") == b"x"
    for name in ("link", "pipe"):
        with pytest.raises(OSError):
            trusted_folder.read(folder, name)


# -- compiled C kernels
KERNEL = "void twice(void* out, const void** in) { ((float*)out)[0] = 2 * ((const float*)in[0])[0]; }"
FORGED = KERNEL.replace("2 *", "3 *")
CALL = """HloModule m
ENTRY e {
  a = f32[] parameter(0)
  ROOT c = f32[] custom-call(a), custom_call_target="twice", api_version=API_VERSION_ORIGINAL
}"""
needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


def result() -> float:
    register_c("twice", KERNEL)
    try:
        return float(xl.compile(xl.parse(CALL))(np.float32(5)))
    finally:
        registry.remove("twice")


@needs_compiler
@pytest.mark.parametrize("damage", ["cut off", "another's", "gone", "key"])
def test_a_compiled_kernel_is_checked_before_it_is_loaded(place: Path, damage: str):
    other = Path(library_of("other", FORGED.replace("twice", "other")))
    kernel = Path(library_of("twice", KERNEL))
    data = kernel.read_bytes()
    kernel.unlink()  # what is loaded stays as it is
    if damage == "cut off":
        kernel.write_bytes(data[: len(data) // 2])
    elif damage == "another's":
        kernel.write_bytes(other.read_bytes())
    elif damage == "key":
        for key in kernel.parent.iterdir():
            if not key.suffix:
                key.write_bytes(b"../../\xff")
    assert result() == 10
    assert kernel.read_bytes() == data


def library_of(name: str, text: str) -> str:
    try:
        return register_c(name, text).source.rpartition(":")[0]
    finally:
        registry.remove(name)


@needs_compiler
def test_kernels_are_not_kept_where_others_may_write(place: Path):
    kernel = Path(library_of("twice", KERNEL))
    kernel.parent.chmod(0o777)
    with pytest.warns(trusted_folder.CacheWarning, match="chmod go-w"):
        assert result() == 10
        made = Path(library_of("twice", KERNEL))
    assert made.parent != kernel.parent and stat.S_IMODE(made.parent.stat().st_mode) == 0o700
