"""The user's token: made once, for this user's eyes only."""

import stat

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.setup.render import token_file


@pytest.fixture
def environ(tmp_path):
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def test_a_token_is_made_once_another_for_each_user_and_read_by_nobody_else(environ, tmp_path):
    assert token_file.read(environ) is None
    made = token_file.make(environ)
    path = token_file.path(environ)
    assert token_file.read(environ) == made
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    with pytest.raises(DkdbgError):
        token_file.make(environ)
    assert token_file.read(environ) == made != token_file.make({"XDG_CONFIG_HOME": str(tmp_path / "other")})


def test_the_variable_wins_also_when_it_is_empty(environ):
    token_file.make(environ)
    assert token_file.read({**environ, "DKDBG_TOKEN": " mine\n"}) == "mine"
    assert token_file.read({**environ, "DKDBG_TOKEN": ""}) == ""
