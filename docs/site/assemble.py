#!/usr/bin/env python3
"""Lays out the site's source for mdBook: `assemble.py FOLDER`.

The pages of docs/ and those beside it (README, CONTRIBUTING, ...) stand in one folder there. A link between pages
follows them; a link to any other file of the repository leads to the repository, whose address Cargo.toml names.
"""

import pathlib
import posixpath
import re
import shutil
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REPOSITORY = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["repository"]

# A span of code is no link, whatever stands in it.
LINK = re.compile(
    r"(?P<code>(?P<ticks>`+)[^`].*?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<before>\]\(|^\[[^\]]+\]: |(?:src|srcset)=\")(?P<target>[^)\s\"]+)",
    re.MULTILINE | re.DOTALL,
)
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img src="(?P<light>[^"]+)"(?P<more>[^>]*)>\s*</picture>'
)
# Names that differ from another page's by more than their case: not every host and disk tells cases apart.
BESIDE_DOCS = {"README.md": "README.md", "SECURITY.md": "reporting.md"}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def site_path(path):
    """Where a file of the repository stands on the site; None where it does not."""
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
        return None if inside.startswith("site/") or not (ROOT / path).is_file() else inside
    if "/" in path or not path.endswith(".md") or not (ROOT / path).is_file():
        return None
    return BESIDE_DOCS.get(path, path.lower().replace("_", "-"))


def moved(target, page):
    """A link of a page (both as in the repository), as the site has it."""
    if "://" in target or target.startswith(("#", "mailto:")):
        return target
    file, mark, section = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), file))
    on_site = site_path(path)
    if on_site is None:
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{REPOSITORY}/{kind}/main/{path}{mark}{section}"
    return f"{on_site}{mark}{section}"


def page_text(page):
    """A page's text with its links as on the site."""

    def link(match):
        return match["code"] or match["before"] + moved(match["target"], page)

    def prose(text):
        text = PICTURE.sub(
            r'<img class="only-light" src="\g<light>"\g<more>><img class="only-dark" src="\g<dark>"\g<more>>', text
        )
        return LINK.sub(link, text)

    text = (ROOT / page).read_text()
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [prose(text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, prose(text[end:])])


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("site", "*.md"))
    names = set()
    for path in [*DOCS.glob("*.md"), *ROOT.glob("*.md")]:
        page = path.relative_to(ROOT).as_posix()
        name = site_path(page)
        assert name.lower() not in names, f"two pages are called {name}"
        names.add(name.lower())
        (pages / name).write_text(page_text(page))
    book = (DOCS / "site/book.toml").read_text()
    assert book.count("REPOSITORY") == 1
    (folder / "book.toml").write_text(book.replace("REPOSITORY", REPOSITORY))
    shutil.copy(DOCS / "site/site.css", folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
