"""docs/interface.md lists what is public: each name of each `__all__` once, with its stability."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/interface.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
MODULES = re.findall(r"^\| `(xloom[.\w]*)`", SECTIONS["Modules"], re.M)


def source(module: str) -> Path:
    path = ROOT.joinpath("src", *module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@pytest.mark.parametrize("module", [module for module in MODULES if module != "xloom.errors"])
def test_page_lists_what_the_module_says(module):
    (said,) = [
        ast.literal_eval(node.value)
        for node in ast.parse(source(module).read_text("utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    ]
    rows = [row.split("|")[1:-1] for row in SECTIONS[module].splitlines() if row.startswith("| `")]
    listed = Counter(name for names, _, _ in rows for name in re.findall(r"`(\w+)`", names))
    assert listed == Counter(said), f"docs/interface.md, section {module}: one row for each name of its __all__"
    assert {stability.strip() for _, _, stability in rows} <= {"stable", "provisional"}


def test_every_room_is_public_or_internal():
    rooms = {path.stem for path in (ROOT / "src/xloom").iterdir() if path.suffix == ".py" or path.is_dir()}
    internal = re.findall(r"`(\w+)`", SECTIONS["Modules"].partition("Internal,")[2])
    public = [module.partition(".")[2] for module in MODULES if module != "xloom"]
    assert Counter([*internal, *public]) == Counter(rooms - {"__init__", "__pycache__"})


def test_public_modules_have_a_page_of_reference():
    pages = {path.stem for path in (ROOT / "docs/reference").glob("*.md")}
    assert {module.rpartition(".")[2] for module in MODULES} - {"errors"} <= pages
