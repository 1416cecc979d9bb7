"""What `dkdbg attach --listen` says of a token that it does not take."""

from types import SimpleNamespace

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.setup.render import token_file
from dkdbg.verbs.parts import attach_listen

REPORTER = SimpleNamespace(line=print, event=print)


def test_a_short_token_of_the_file_is_made_anew_once_the_file_is_gone(tmp_path, monkeypatch):
    monkeypatch.delenv("DKDBG_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "dkdbg" / "token"
    file.parent.mkdir()
    file.write_text("abc\n")
    file.chmod(0o600)
    with pytest.raises(DkdbgError) as caught:
        attach_listen.token_of(REPORTER)
    assert caught.value.message.startswith(f"the token ({file}) has 3 characters")
    assert caught.value.hint.startswith(f"rm {file}, and dkdbg makes one; ")
    file.unlink()
    assert attach_listen.token_of(REPORTER) == token_file.read({"XDG_CONFIG_HOME": str(tmp_path)})


@pytest.mark.parametrize(("token", "what"), [("", "is empty"), ("hunter2", "has 7 characters")])
def test_a_short_token_of_the_environment_is_taken_out_of_it(token, what, monkeypatch):
    monkeypatch.setenv("DKDBG_TOKEN", token)
    with pytest.raises(DkdbgError) as caught:
        attach_listen.token_of(REPORTER)
    assert caught.value.message.startswith(f"the token (DKDBG_TOKEN) {what}, ")
    assert caught.value.hint.startswith("unset DKDBG_TOKEN, and dkdbg makes one; ")
