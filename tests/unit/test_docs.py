"""The documentation: links lead somewhere, the reference is the parser's, and what a page quotes is what is said."""

import re
import shutil
import sys
from pathlib import Path

import pytest

import dkdbg
from dkdbg import pai
from tests.attacks import table
from tests.commands import command
from tests.pages import DOCS
from tests.reference import reference, settings
from tests.texts import texts

ROOT = DOCS.parent
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(page):
    """The anchors of a page's headings, as GitHub and the site make them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_what_is_there(page):
    broken = []
    for link in _LINK.findall(_CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize(("name", "made"), [("commands.md", reference), ("settings.md", settings)])
def test_a_reference_is_what_the_program_says(name, made, request):
    page = DOCS / name
    if request.config.getoption("--update-golden"):
        page.write_text(made())
    assert page.read_text() == made()


def test_the_readme_is_short_and_the_index_knows_every_page():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    index = (DOCS / "index.md").read_text()
    known = {(DOCS / link).resolve() for link in _LINK.findall(index)}
    pages = {page for page in DOCS.rglob("*.md") if page.parent.name != "adr"} - {DOCS / "index.md"}
    assert {str(page.relative_to(DOCS)) for page in pages - known} == set()


def test_the_python_api_page_has_every_public_function():
    page = (DOCS / "python-api.md").read_text()
    assert [name for name in dkdbg._ON_DEMAND if f"`dkdbg.{name}" not in page] == []
    assert [name for name in pai.__all__ if name != "main" and f"`{name}(" not in page] == []


def test_the_architecture_has_every_room_and_decision():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [each.parent for each in Path(dkdbg.__file__).parent.glob("*/__init__.py")]
    assert [each.name for each in rooms if not re.search(rf"^ │ .*\b{each.name} ", page, re.MULTILINE)] == []
    numbers = [int(each) for each in re.findall(r"\[(\d+) [^]]*\]\(docs/adr/", page)]
    assert numbers == sorted(int(each.name[:4]) for each in (DOCS / "adr").glob("*.md"))


def test_a_figure_names_a_command_that_measures_it_again():
    found = []
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = page.read_text()
        commands = re.findall(r"python benchmarks/(\w+)\.py((?: --?[\w-]+(?: [\w,]+)?)*)", text)
        mentioned = set(re.findall(r"benchmarks/(\w+)\.py", text))
        assert mentioned == {name for name, _ in commands}, f"{page.name}: name the whole command"
        found += commands
    for name, options in found:
        source = (ROOT / "benchmarks" / f"{name}.py").read_text()
        for option in re.findall(r"--[\w-]+", options):
            assert f'"{option}"' in source, f"benchmarks/{name}.py has no {option}"
    assert len(found) > 8


def test_the_site_builds_and_its_links_lead_somewhere(tmp_path):
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    command([sys.executable, "-m", "zensical", "build", "--strict"], tmp_path, env={"NO_COLOR": "1"})
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")} - {"index"}
    assert {page for page in pages if not (tmp_path / ".site" / page / "index.html").is_file()} == set()


def test_the_table_of_attacks_is_that_of_the_tests_and_has_each_hole():
    text = table.DOCUMENT.read_text()
    assert table.document(text) == text, "run: python -m tests.attacks.table --write"
    assert set(range(1, 18)) <= {one.hole for one in table.attacks()}


def fits(quoted, text):
    """Whether the words stand in the text, with anything for NAME and `...`."""
    words = re.split(r"\bNAME\b|\.\.\.", quoted)
    return re.search(r"(?:\{\}|%s)".join(map(re.escape, words)), text) is not None


def test_each_quoted_heading_of_the_troubleshooting_page_is_said_by_the_program():
    assert not fits("port 5678 is on fire", "port {} is taken")
    assert fits("there is no container NAME yet", "there is no container {} yet")
    headings = re.findall(r"^###? (.*)$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    quoted = [each for heading in headings for each in re.findall(r'"([^"]+)"', heading)]
    assert len(quoted) > 15
    templates = [path.read_text() for path in (ROOT / "templates").rglob("*.j2")]
    everything = [*(text for _, text in texts()), *templates]
    missing = [each for each in quoted if not any(fits(each, text) for text in everything)]
    assert missing == []
