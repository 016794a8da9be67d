"""The text of the native entries: a later process finds what an earlier one has written."""

import pytest

from xloom.compilation_cache.cache import flush
from xloom.pjrt.capi import native_entries


def test_the_text_is_written_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    forget()
    first = native_entries.native_text()
    assert first == native_entries.written_text()
    flush()
    forget()
    monkeypatch.setattr(native_entries, "written_text", lambda: pytest.fail("it is written again"))
    assert native_entries.native_text() == first
    native_entries.native_text.cache_clear()


def forget():
    native_entries.native_text.cache_clear()
    native_entries._texts.clear()
