"""Errors say what, where and what next, and docs/errors.md has a section for each class of them."""

import re
from pathlib import Path

import pytest

from tests.interface.error_messages import error_kinds, made

PAGE = (Path(__file__).parents[2] / "docs/errors.md").read_text("utf-8")

NO_MORE_IS_SAID_THERE = {
    "calls/c_compiler.py": "what the compiler of C says has file and line, and what it wants",
    "calls/pointers.py": "there is nothing to a null pointer but its call's name",
    "calls/signature.py": "the annotation is the message",
    "calls/typed_ffi/": "what a handler itself has said",
    "cli/main.py": "an error of the operating system, with its file",
    "cpu/buffer_verifier/": "the compiler's own fault, to be reported; its class says so",
    "difference/search.py": "says what both programs take",
    "distributed/transfers.py": "a process that has failed, which tells its own error",
    "hlo/device_mesh.py": "the parser or decoder adds the place",
    "hlo/sharding.py": "the parser or decoder adds the place",
    "hlo/pickling.py": "a module that breaks a rule, which the verifier tells",
    "hlo/proto/": "the decoder adds the field's path",
    "hlo/text/": "the parser adds line and column",
    "hlo/verify/": "the verifier adds the instruction and its source line",
    "infer/": "infer_shape adds the opcode, and how to read of it",
    "passes/dynamic/": "a reason, which the metrics of dynamic shapes tell",
    "passes/partitioning/": "names the call and the sharding that its own partitioner gave",
    "passes/pattern/": "names the pattern and what in it is wrong",
    "passes/shrinking.py": "a reason, which the message of a pass that was not compared has",
    "passes/translation.py": "a reason, which the message of a pass that was not compared has",
    "passes/trial.py": "a reason, which the message of a pass that was not compared has",
    "pjrt/capi/": "what the caller of the C API has said itself",
    "pjrt/error.py": "an argument of PJRT that is invalid: the message is what it must be",
    "pjrt/executable.py": "an executable that its caller has deleted",
    "reduction/failure.py": "the child's own last words",
    "cpu/runtime/executable.py": "for callers inside, who ask first",
    "testing/check_call.py": "the report is the message",
    "torch/resized_graph.py": "a reason, which the metrics of dynamic shapes tell",
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


def test_messages_say_where_or_what_next():
    bare = [m for m in MESSAGES if not m.says_more and not m.file.startswith(tuple(NO_MORE_IS_SAID_THERE))]
    assert not bare, "\n".join(f"{m.file}:{m.line}: {m.kind}: {m.message}" for m in bare)


def test_exceptions_to_that_are_used():
    for prefix in NO_MORE_IS_SAID_THERE:
        assert any(m.file.startswith(prefix) and not m.says_more for m in MESSAGES), prefix
