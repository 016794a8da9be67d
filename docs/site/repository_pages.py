"""The site has pages of the repository that lie outside docs/: README is the first page, sources are shown as code."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md", "benchmarks/CONSTANTS.md")
MEDIA = (".png", ".svg")
_LINK = re.compile(r"(\]\()([^)#\s:]+)([)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds PAGES and, of what pages link to, pictures and a page for each source file."""
    for path in PAGES:
        files.append(File.generated(config, _site_path(path), content=(ROOT / path).read_text("utf-8")))
    linked = {path for file in files.documentation_pages() for path in _linked(file)}
    for path in sorted(path for path in linked if files.get_file_from_path(_site_path(path)) is None):
        if path.endswith(MEDIA):
            files.append(File.generated(config, _site_path(path), abs_src_path=str(ROOT / path)))
            continue
        text = f"# {path}\n\n```{Path(path).suffix[1:]}\n{(ROOT / path).read_text('utf-8')}```\n"
        files.append(File.generated(config, _site_path(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with its links to files of the repository led to their pages of the site."""
    folder = posixpath.dirname(_repository_path(page.file.src_uri))
    here = posixpath.dirname(page.file.src_uri)

    def led(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[2]))
        if not (ROOT / path).is_file():
            return link[0]
        return f"{link[1]}{posixpath.relpath(_site_path(path), here or '.')}{link[3]}"

    return _LINK.sub(led, markdown)


def _site_path(path: str) -> str:
    """Where the site has what the repository has at `path`."""
    if path == "README.md":
        return "index.md"
    if not path.endswith((".md", *MEDIA)):
        path += ".md"
    return path.removeprefix("docs/")


def _repository_path(site_path: str) -> str:
    """The inverse, of Markdown pages."""
    if site_path == "index.md":
        return "README.md"
    return site_path if site_path in PAGES else f"docs/{site_path}"


def _linked(file: File) -> list[str]:
    """The files of the repository, other than Markdown, that a page links to."""
    folder = posixpath.dirname(_repository_path(file.src_uri))
    paths = [posixpath.normpath(posixpath.join(folder, link[2])) for link in _LINK.finditer(file.content_string)]
    return [path for path in paths if not path.endswith(".md") and (ROOT / path).is_file()]
