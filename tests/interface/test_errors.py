"""Errors say what, where and what next, and docs/errors.md has a section for each class of them."""

import re
from pathlib import Path

import pytest

from tests.interface.error_messages import error_kinds, made

PAGE = (Path(__file__).parents[2] / "docs/errors.md").read_text("utf-8")

NO_MORE_IS_SAID_THERE = {
    "calls/typed_ffi/": "what a handler itself has said",
    "cli/main.py": "an error of the operating system, with its file",
    "difference/search.py": "says what both programs take",
    "hlo/device_mesh.py": "the parser or decoder adds the place",
    "hlo/pickling.py": "a module that breaks a rule, which the verifier tells",
    "hlo/proto/": "the decoder adds the field's path",
    "hlo/verify/": "the verifier adds the instruction and its source line",
    "passes/dynamic/": "a reason, which the metrics of dynamic shapes tell",
    "passes/partitioning/": "names the call and the sharding that its own partitioner gave",
    "passes/shrinking.py": "a reason, which the message of a pass that was not compared has",
    "passes/translation.py": "a reason, which the message of a pass that was not compared has",
    "passes/trial.py": "a reason, which the message of a pass that was not compared has",
    "pjrt/capi/": "what the caller of the C API has said itself",
    "pjrt/error.py": "an argument of PJRT that is invalid: the message is what it must be",
    "reduction/failure.py": "the child's own last words",
    "cpu/runtime/executable.py": "for callers inside, who ask first",
    "testing/check_call.py": "the report is the message",
}
"""Files, and folders, where messages may stand without a place and a hint, and why."""

MESSAGES = list(made())


@pytest.mark.parametrize("kind", error_kinds())
def test_classes_have_a_section_and_say_what_to_do(kind):
    if kind.startswith("_"):
        return
    section = re.search(rf"^### {kind}\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S)
    assert section, f"docs/errors.md has no section {kind}"
    assert "**Causes.**" in section[1] and "**Remedies.**" in section[1]
    assert error_kinds()[kind]


def test_page_has_no_class_that_there_is_not():
    assert set(re.findall(r"^### (\w+)$", PAGE, re.M)) <= error_kinds().keys()


def test_messages_are_not_empty():
    assert len(MESSAGES) > 500
    assert all(each.message for each in MESSAGES), [each for each in MESSAGES if not each.message]


def test_few_messages_are_others():
    """What another error or program has said, with a place or hint of ours."""
    assert sum(not each.message.strip("{}: ") for each in MESSAGES) < 40


def test_messages_without_place_and_hint_do_not_become_more():
    assert sum(not each.says_more for each in MESSAGES) <= 53


def test_messages_say_where_or_what_next():
    bare = [m for m in MESSAGES if not m.says_more and not m.file.startswith(tuple(NO_MORE_IS_SAID_THERE))]
    assert not bare, "\n".join(f"{m.file}:{m.line}: {m.kind}: {m.message}" for m in bare)


def test_exceptions_to_that_are_used():
    for prefix in NO_MORE_IS_SAID_THERE:
        assert any(m.file.startswith(prefix) and not m.says_more for m in MESSAGES), prefix
