"""Adds to MkDocs what it does not do by itself, so that the same text works on the site and on GitHub.

- Anchors are the same as on GitHub: a link to a heading works on both.
- Links to files outside docs/ (examples, workflows, the code) become addresses of the repository.
- A page that GitHub would lay out differently gives a warning, and so does a page that loads something from another
  host: `mkdocs build --strict` then fails.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs"
# A child of MkDocs' own logger: its warnings count for `--strict`.
log = logging.getLogger("mkdocs.hooks.docs")

_FENCE = re.compile(r"^\s*(```|~~~)")
# `](target)` of a link or an image, but no address of another host and no anchor of the page itself.
_TARGET = re.compile(r"(?<=\]\()(?![a-z][a-z+.-]*:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_COUNTED = ("<li>", "<table>", "<pre>", "<blockquote>")
_FOREIGN = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(https?:[^\" >]+)")
_FIX = "put an empty line before each list and table, and four spaces before what belongs to an item"


def slug(text: str, separator: str = "-") -> str:
    """The anchor that GitHub gives a heading: lower case, no punctuation, one hyphen per space."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def prose(markdown: str) -> Iterator[tuple[bool, str]]:
    """The lines of a page, each with whether it is text outside of fenced blocks."""
    fence = ""
    for line in markdown.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
            yield False, line
        else:
            yield not fence, line


def on_config(config: Any) -> Any:
    """Use GitHub's anchors."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Turn links to files outside docs/ into addresses of the repository."""
    replace = _to_repository(page.file.src_uri, config["extra"]["repository"])
    return "".join(_TARGET.sub(replace, line) if is_text else line for is_text, line in prose(markdown))


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Warn if lists, tables, code blocks or quotations differ from those on GitHub."""
    on_github = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(page.markdown)
    for tag in _COUNTED:
        here, there = html.count(tag), on_github.count(tag)
        if here != there:
            log.warning(f"{page.file.src_uri}: {here} × {tag} on the site, {there} on GitHub. Fix: {_FIX}")
    return html


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Warn if a page loads something from another host; links to other hosts are allowed."""
    for address in _FOREIGN.findall(output):
        log.warning(
            f"{page.file.src_uri}: the page loads {address}. Fix: keep a copy in docs/, or turn off what asks for it"
        )
    return output


def _to_repository(page: str, repository: str) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(DOCS, posixpath.dirname(page), match[1]))
        if path.startswith(f"{DOCS}/"):
            return match[0]
        if not (ROOT / path).exists():
            log.warning(f"{page}: the link to {match[1]} leads to no file of the repository")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{repository}/{kind}/main/{path}{match[2] or ''}"

    return replace
