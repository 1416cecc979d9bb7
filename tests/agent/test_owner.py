"""The agent's user and its environment in a debug service."""

import os
import pwd

import pytest

from dkdbg.agent.supervisor.owner import HOME_ENV, OWNER_ENV, become_owner


@pytest.mark.parametrize("own", ["/root", "/srv/home"])
def test_a_program_that_stays_root_has_the_home_that_it_has_in_plain_compose(monkeypatch, own):
    user = next(each for each in pwd.getpwall() if each.pw_uid)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    environ = {OWNER_ENV: "/", HOME_ENV: user.pw_name, "HOME": own}
    become_owner(environ)
    assert environ["HOME"] == (user.pw_dir if own == "/root" else own)
