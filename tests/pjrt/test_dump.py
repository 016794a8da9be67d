"""Files of programs before and after optimisation."""

import pytest

import xloom as xl
from xloom.pjrt import Client, CompileOptions, PjrtError
from xloom.pjrt.protobuf_wire_format import embedded, scalar

MODULE = xl.parse("HloModule twice  ENTRY e { x = f32[4] parameter(0)  z = f32[4] subtract(x, x)  ROOT y = add(x, x) }")


def option(name, value):
    said = embedded(1, value.encode()) if isinstance(value, str) else scalar(2, int(value))
    return embedded(7, embedded(1, name.encode()) + embedded(2, said))


def dumped(folder, **options):
    client = Client.cpu()
    proto = b"".join(option(f"xla_dump_{name}", value) for name, value in {"to": str(folder), **options}.items())
    client.compile(MODULE, CompileOptions.from_proto(proto))
    return {path.name.partition(".")[2]: path for path in folder.iterdir()} if folder.exists() else {}


def test_text(tmp_path):
    found = dumped(tmp_path / "new")
    before, after = (found.pop(f"twice.{name}.txt") for name in ("before_optimizations", "xloom_after_optimizations"))
    assert not found
    assert "subtract" in before.read_text()
    assert "subtract" not in after.read_text()
    assert xl.parse(after.read_text())


def test_forms(tmp_path):
    found = dumped(tmp_path, hlo_as_proto=True, hlo_as_text=True)
    assert sorted(path.suffix for path in found.values()) == [".pb", ".pb", ".txt", ".txt"]
    assert {path.suffix for path in dumped(tmp_path / "proto", hlo_as_proto=True).values()} == {".pb"}


def test_of_debug_options(tmp_path):
    debug = embedded(109, str(tmp_path).encode()) + scalar(113, 1)
    options = CompileOptions.from_proto(embedded(3, embedded(3, debug)))
    assert options.dump is not None
    assert (options.dump.folder, options.dump.as_text, options.dump.as_proto) == (str(tmp_path), False, True)


def test_chosen_modules(tmp_path):
    assert not dumped(tmp_path / "other", hlo_module_re="thrice")
    assert len(dumped(tmp_path / "chosen", hlo_module_re="tw.ce")) == 2
    with pytest.raises(PjrtError, match="no regular expression"):
        dumped(tmp_path, hlo_module_re="(")


def test_printed(tmp_path, capsys):
    client = Client.interpreter()
    client.compile(MODULE, CompileOptions.from_proto(option("xla_dump_to", "-")))
    assert capsys.readouterr().out.count("HloModule twice") == 2
