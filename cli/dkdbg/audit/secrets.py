"""Recognise tokens by their shape, and variables that hold secrets by their names.

The shapes are those that the issuers document, with a prefix or in a fixed context. A search by entropy, as gitleaks
does it, would also report digests and model names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The names that BuildKit's check SecretsUsedInArgOrEnv looks for, except `auth` and a bare `key`: too ambiguous.
#: Source: moby/buildkit, frontend/dockerfile/linter.
_SECRET = re.compile(
    r"(?:^|_)(?:(?:api|access|secret|private|ssh)_?key|credentials?|pword|secret|token)(?:_|$)|passw(?:or)?d(?:_|$)|_pa(?:t|ss)$",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"(?:^|_)(?:public|vite|react_app|file|path|dir|url|id|name|length|limit|max|min|num)(?:_|$)"
    r"|_(?:header|hashers?|validators?|algorithm|(?:timeout|ttl|lifetime|expir\w*)(?:_\w+)?)$",
    re.IGNORECASE,
)
#: Text between a variable's name and its value: in `NAME=VALUE`, `"NAME": "VALUE"`, or `name: NAME` + `value: VALUE`.
_IS = r"[\"'\]]{0,2}(?:\s{0,3}[=:]\s{0,3}|\s{0,80},?\s{0,80}[\"']?value[\"']?\s{0,3}:\s{0,3})[\"']?"
#: Issuer and shape of each token. A shape begins with literal text, which `re` finds fast. If that is a variable's
#: name, group 1 is the token.
_SHAPES = tuple(
    (issuer, re.compile(rf"{shape}(?![A-Za-z0-9])"))
    for issuer, shape in (
        ("GitHub", r"gh[pousr]_[A-Za-z0-9]{36}"),
        ("GitHub", r"github_pat_[A-Za-z0-9_]{50,90}"),
        ("Hugging Face", r"hf_[A-Za-z0-9]{30,40}"),
        # Ignore a key id in the URL or header of a signed request: it travels without its secret key.
        ("AWS", r"A[KS]IA[A-Z0-9]{16}(?<![?&;]AWSAccessKeyId=.{20})(?!(?:/|%(?:25){0,3}2F)\d{8}(?:/|%))"),
        ("AWS", rf"AWS_SECRET_ACCESS_KEY{_IS}([A-Za-z0-9/+]{{40}})"),
        ("AWS", rf"aws_secret_access_key{_IS}([A-Za-z0-9/+]{{40}})"),
        ("OpenAI", r"sk-(?:proj-|svcacct-)[A-Za-z0-9_-]{40,200}"),
        ("OpenAI", r"sk-[A-Za-z0-9]{48}"),
        ("Anthropic", r"sk-ant-[a-z0-9]{4,8}-[A-Za-z0-9_-]{60,120}"),
        ("GitLab", r"glpat-[A-Za-z0-9_-]{20}"),
        ("Google", r"AIza[A-Za-z0-9_-]{35}"),
        ("Slack", r"xox[abprs]-[A-Za-z0-9-]{20,90}"),
        ("Docker Hub", r"dckr_pat_[A-Za-z0-9_-]{20,40}"),
        ("PyPI", r"pypi-AgE[A-Za-z0-9_-]{50,200}"),
        ("NVIDIA", r"nvapi-[A-Za-z0-9_-]{40,90}"),
        ("npm", r"npm_[A-Za-z0-9]{36}"),
        ("Weights & Biases", rf"WANDB_API_KEY{_IS}([0-9a-f]{{40}})"),
        ("Weights & Biases", r"wandb[. ]login[( ](?:key=)?[\"']?([0-9a-f]{40})"),
        ("dkdbg", rf"DKDBG_(?:PDB_)?TOKEN{_IS}([A-Za-z0-9_][A-Za-z0-9_+/=-]{{19,199}})(?![\w+/=.(\[-])"),
        ("dkdbg", rf"dkdbgToken{_IS}([A-Za-z0-9_][A-Za-z0-9_+/=-]{{19,199}})"),
    )
)
#: A dkdbg token chosen by the user, which is shorter than a generated one. Not searched for in code and documents,
#: where such a text is usually a name or an example.
_CHOSEN = re.compile(
    rf"(?:DKDBG_(?:PDB_)?TOKEN|dkdbgToken){_IS}([A-Za-z0-9_][A-Za-z0-9_+/=.-]{{5,199}})(?![\w(\[])"
)
_NO_TOKEN = frozenset({"prompt", "string", "secret", "required"})
#: Path of dkdbg's token file, `~/.config/dkdbg/token`; and its whole content.
_OWN_FILE, _WHOLE = re.compile(r"(?:.*/)?\.?dkdbg/token"), re.compile(r"\s*[A-Za-z0-9_-]{40,64}\s*")
_CODE = re.compile(r".+\.(?:py|pyi|ipynb|md|rst|txt|js|ts|tsx|c|cc|cpp|go|rs|java|html|j2)")
_CREDENTIALS = re.compile(r"://[^/\s:@$]{1,100}:[^/\s@$]{3,200}@")
_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{2,10} ){0,2}PRIVATE KEY-----")
#: Texts that mark an example; minimum number of different characters in a real token.
_EXAMPLE = re.compile(r"example|x{4}|your|placeholder|redacted|changeme|<|\$", re.IGNORECASE)
_MIN_DISTINCT = 8
#: Maximum characters of a variable's name.
_MAX_NAME = 200


def is_secret_name(name: str) -> bool:
    """Return whether a variable with this name may hold a secret."""
    return len(name) <= _MAX_NAME and _SECRET.search(name) is not None and _NO_SECRET.search(name) is None


def has_credentials(value: str) -> bool:
    """Return whether a value contains a URL with user name and password."""
    return _CREDENTIALS.search(value) is not None


def tokens(path: str, text: str, *, keys: bool = True) -> Iterator[tuple[int, str]]:
    """Yield the offset of each token in a file, and a description without the token itself.

    Args:
        path: the file's path: in programs and documents, a text that looks like a token may be an example.
        keys: whether to report private keys; those in tests protect nothing.
    """
    for issuer, shape in _SHAPES:
        for found in shape.finditer(text):
            token = found[found.lastindex or 0]
            before = text[found.start() - 1 : found.start()]
            if _is_real(token) and not (before.isalnum() or before in {"_", "-"}):
                yield found.start(), f"a token of {issuer} ({token[:6]}...)"
    if not _CODE.fullmatch(path):
        for found in _CHOSEN.finditer(text):
            if len(found[1]) < 20 and found[1].lower() not in _NO_TOKEN and not _EXAMPLE.search(found[1]):
                yield found.start(), f"a token of dkdbg ({found[1][:2]}...)"
    if _OWN_FILE.fullmatch(path) and _WHOLE.fullmatch(text):
        yield 0, "a token of dkdbg (the whole file)"
    for found in _KEY.finditer(text) if keys else ():
        if re.match(r"(?:\s|\\+[nr])*[A-Za-z0-9+/=]{16}", text[found.end() : found.end() + 80]):
            yield found.start(), "a private key"


def _is_real(token: str) -> bool:
    """Return whether a text looks like a real token rather than a name, an expression or an example."""
    return len(set(token)) >= _MIN_DISTINCT and not token.isalpha() and not _EXAMPLE.search(token)
