"""JSON with comments and trailing commas, as editors write it, read into plain values."""

from __future__ import annotations

import json
import re

# A string, a comment, or a comma before a closing bracket (comments may stand between them).
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)


def loads(text: str) -> object:
    """Return the value that JSON-with-comments text holds.

    Raises:
        ValueError: with the position, when it is not even that.
    """
    plain = _TOKEN.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)
    value: object = json.loads(plain)
    return value
