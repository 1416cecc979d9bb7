"""Who else uses a machine, with stand-ins for the accounts of this one."""

import os
import pwd

import pytest

from dkdbg.setup.detect import people


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Set the accounts: (name, uid, shell, whether there is a home)."""
    homes = tmp_path / "home"
    homes.mkdir()

    def accounts(*rows, me=1000):
        entries = []
        for name, uid, shell, has_home in rows:
            if has_home:
                (homes / name).mkdir()
            fields = (name, "x", uid, uid, "", str(homes / name), shell)
            entries.append(pwd.struct_passwd(fields))
        monkeypatch.setattr(pwd, "getpwall", lambda: entries)
        monkeypatch.setattr(os, "getuid", lambda: me)
        monkeypatch.setattr(people, "_owners", lambda _: set())
        return people.others()

    return accounts


ME = ("me", 1000, "/bin/bash", True)
ANNA = ("anna", 1001, "/bin/zsh", True)


@pytest.mark.parametrize(
    ("rows", "me", "others"),
    [
        ([ME, ("root", 0, "/bin/bash", True), ("nobody", 65534, "/usr/sbin/nologin", False)], 1000, ()),
        ([ME, ANNA], 1000, ("anna",)),
        ([ME, ("svc", 1002, "/usr/sbin/nologin", True)], 1000, ()),
        ([ME, ("gone", 1003, "/bin/bash", False)], 1000, ()),
        ([ME, ("sshd", 110, "/bin/sh", True)], 1000, ()),
        ([ANNA], 0, ()),
        ([ANNA, ME], 0, ("anna", "me")),
    ],
    ids=["alone", "colleague", "no shell", "no home", "service", "root and one person", "root and several"],
)
def test_a_person_besides_with_a_home_and_a_shell_counts(machine, rows, me, others):
    assert machine(*rows, me=me) == others


def test_the_owner_of_a_home_counts_though_no_account_is_listed(machine, monkeypatch):
    machine()
    monkeypatch.setattr(people, "_owners", lambda _: {1000, 90001})
    assert "uid 90001" in people.others()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another")
def test_the_owners_of_the_folders_beside_a_home_are_seen(tmp_path):
    for name, uid in (("anna", 1001), ("service", 110), ("shared", 0)):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, uid, uid)
    assert people._owners(tmp_path) == {1001}
