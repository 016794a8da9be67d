"""Errors say what, where and what next, and docs/errors.md has a section for each class of them."""

import re
from pathlib import Path

import pytest

import xloom as xl
from tests.interface.error_messages import error_kinds, made
from xloom.hlo.proto.schema import messages

PAGE = (Path(__file__).parents[2] / "docs/errors.md").read_text("utf-8")

SAID_BY_OTHERS = {
    "calls/typed_ffi/probe.py": "the error of the call quotes it",
    "hlo/proto/": "the decoder adds the field's path, and a hint",
    "hlo/verify/": "the verifier adds the instruction, its source line, and a hint",
    "pjrt/capi/": "what the caller of the C API has said itself",
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
    assert len(MESSAGES) > 700
    assert all(each.message for each in MESSAGES), [each for each in MESSAGES if not each.message]


def test_few_messages_are_others():
    """What another error or program has said, with a place or hint of ours."""
    assert sum(not each.message.strip("{}: ") for each in MESSAGES) < 43


def test_messages_say_where_or_what_next():
    bare = [m for m in MESSAGES if not m.says_more and not m.file.startswith(tuple(SAID_BY_OTHERS))]
    assert not bare, "\n".join(f"{m.file}:{m.line}: {m.kind}: {m.message}" for m in bare)


def test_who_says_more_of_a_message_does():
    module = xl.parse("ENTRY main { x = f32[2] parameter(0)\n ROOT y = f32[2] negate(x) }")
    module.entry.root.shape = xl.f32[3]
    with pytest.raises(xl.VerifyError) as found:
        xl.verify(module)
    assert found.value.where == "%y" and "xloom ops negate" in found.value.hint
    proto = messages().Module.FromString(xl.parse("ENTRY main { ROOT x = f32[2] parameter(0) }").to_proto())
    shape = messages().Shape.FromString(proto.computations[0].instructions[0].shape)
    shape.layout.minor_to_major.append(1)
    proto.computations[0].instructions[0].shape = shape.SerializeToString()
    with pytest.raises(xl.ParseError) as found:
        xl.from_proto(proto.SerializeToString())
    assert "shape" in found.value.where and "write it anew" in found.value.hint


def test_exceptions_to_that_are_used():
    for prefix in SAID_BY_OTHERS:
        assert any(m.file.startswith(prefix) and not m.says_more for m in MESSAGES), prefix
