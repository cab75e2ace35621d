#!/usr/bin/env python3
"""Looks whether every link of the built site leads somewhere: `check.py FOLDER`. Nothing outside of it is asked."""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """The ids of a page, and what it links to and shows."""

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.prose, self.code, self.in_code = set(), [], [], [], 0

    def handle_starttag(self, tag, attributes):
        self.in_code += tag == "code"
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)

    def handle_endtag(self, tag):
        self.in_code -= tag == "code"

    def handle_data(self, data):
        (self.code if self.in_code else self.prose).append(data)


def main(site):
    pages = {}
    for path in sorted(site.glob("**/*.html")):
        page = Page()
        page.feed(path.read_text())
        pages[path.resolve()] = page
    problems, seen = [], 0
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            # 404.html is shown at any address: its links begin at the site's root.
            if parts.scheme or parts.netloc or (link.startswith("/") and where.name == "404.html"):
                continue
            seen += 1
            file = urllib.parse.unquote(parts.path)
            target = (path.parent / file).resolve() if file else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                problems.append(f"{where}: {link}: there is no such file")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].ids:
                problems.append(f"{where}: {link}: there is no such section")
        if "<!--" in "".join(page.prose):
            problems.append(f"{where}: a comment for the tests shows")
        if "/blob/main/" in "".join(page.code):
            problems.append(f"{where}: code was taken for a link")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(pages)} pages, {seen} links, {len(problems)} problems")
    if seen < 1000 or not (site / "searchindex.json").exists() and not list(site.glob("searchindex*.js")):
        sys.exit("this is no whole site")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
