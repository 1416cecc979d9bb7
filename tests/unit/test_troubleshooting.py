"""What the troubleshooting page quotes is what the program says."""

import re

from tests.pages import DOCS
from tests.texts import texts

TEMPLATES = DOCS.parent / "templates"


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
    everything = [*(text for _, text in texts()), *(path.read_text() for path in TEMPLATES.rglob("*.j2"))]
    missing = [each for each in quoted if not any(fits(each, text) for text in everything)]
    assert missing == []
