"""The page of the hang map holds what strangers say, and is never anything but a page of text."""

import base64
import hashlib
import json
import re

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.hang import page

EVIL = "</script><script>alert(1)</script><!-- & \u2028 \x1b[2J \u202e @DATA@ @POLICY@"


def made(**values):
    return page.page(
        [{"heading": EVIL, "jobs": [EVIL], EVIL: {"a": EVIL}} | values], asked="now", again=False
    )


def test_what_a_process_says_ends_no_script_and_begins_none_and_is_all_there():
    text = made()
    assert "alert(1)</script>" not in text
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert text.count("<!--") == 0
    assert not {"\x1b", "\u202e", "\u2028"} & set(text)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', made(), re.DOTALL)
    said = json.loads(found[1])
    assert said["jobs"][0]["heading"].startswith("</script><script>alert(1)</script><!-- & ")


def test_the_browser_may_run_the_pages_own_script_alone_and_load_nothing():
    text = made()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]
    assert "http" not in text.replace("http-equiv", "")


def test_a_page_is_written_anew_and_no_file_of_the_user_is(tmp_path):
    own = tmp_path / "hang.html"
    page.write(own, made())
    page.write(own, made(world_size=3))
    assert '"world_size": 3' in own.read_text()
    assert own.stat().st_mode & 0o077 == 0
    users = tmp_path / "notes.html"
    users.write_text("mine")
    link = tmp_path / "link.html"
    link.symlink_to(own)
    for taken in (users, link, tmp_path):
        with pytest.raises(DkdbgError, match="already exists"):
            page.write(taken, made())
    assert users.read_text() == "mine"
    with pytest.raises(DkdbgError, match="cannot write"):
        page.write(tmp_path / "none" / "hang.html", made())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["hang.html", "link.html", "notes.html"]
