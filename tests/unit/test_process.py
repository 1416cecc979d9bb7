"""What is said of programs that cannot be started."""

import pytest

from dkdbg import process
from dkdbg.errors import DkdbgError


def test_a_program_that_may_not_be_executed_is_shown_where_it_was_found(tmp_path, monkeypatch):
    (tmp_path / "interpreter").touch(0o644)
    program = tmp_path / "docker"
    program.write_text(f"#!{tmp_path / 'interpreter'}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DkdbgError, match="'docker' is not executable") as caught:
        process.converse(["docker", "exec", "x"])
    assert f"ls -l {program}" in caught.value.hint
