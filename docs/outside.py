"""A hook of MkDocs: links that leave the book are names of files in it, for the rest of the repository is not part of it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def on_page_markdown(markdown, page, **_):
    def inside(match):
        target = match[2].split("#")[0]
        if "://" in target or not target.startswith(".."):
            return match[0]
        path = (ROOT / "docs" / page.file.src_uri).parent.joinpath(target).resolve()
        if path.is_relative_to(ROOT / "docs") and not path.is_relative_to(ROOT / "docs/developers"):
            return match[0]
        if not path.exists():
            raise SystemExit(f"{page.file.src_uri}: {target} is not there")
        return f"`{path.relative_to(ROOT)}`"

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", inside, markdown)
