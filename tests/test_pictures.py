"""Pictures of the documentation are of what the repository has."""

import re
from pathlib import Path

from benchmarks.family_chart import PAGE, PICTURE, family_chart

ROOT = Path(__file__).parent.parent


def test_the_picture_of_speed_is_of_the_results_page():
    page = PAGE.read_text("utf-8")
    assert PICTURE.read_text("utf-8") == family_chart(page)
    assert all(f">{family}</text>" in family_chart(page) for family in ("convolution", "sorting", "training"))


def test_pictures_that_pages_show_are_there():
    for page in (ROOT / "docs").glob("*.md"):
        for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text("utf-8")):
            assert (page.parent / path).is_file(), (page, path)
