"""docs/how-to/audit.md, the hook for pre-commit and the GitHub Action, each as it is written."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

from ruamel.yaml import YAML

from dkdbg.audit.rules import RULES
from dkdbg.verbs import command_line
from tests.commands import command
from tests.pages import DOCS, Page, blocks, environment

ROOT = DOCS.parent
COMPOSE = (
    'services:\n  app:\n    image: app:1\n    environment:\n      A: "1"\n    ports:\n      - "5678:5678"\n'
)


def leaking(root):
    (root / "compose.yaml").write_text(COMPOSE)
    (root / "train.py").write_text("import debugpy\n\n\ndebugpy.wait_for_client()\n")
    return root


def test_the_page_shows_what_the_audit_prints(tmp_path):
    page = Page.of("how-to/audit.md")
    shown = next(block for language, block in blocks(page.text) if language == "console").split("\n", 1)[1]
    with page.all_run():
        said = page.run("dkdbg audit", cwd=leaking(tmp_path))
        assert (said.returncode, said.stdout) == (1, shown)
        assert page.run("dkdbg audit --format sarif", cwd=tmp_path).returncode == 1
    assert len(json.loads((tmp_path / "dkdbg.sarif").read_text())["runs"][0]["results"]) == 2
    ignored = next(
        block for language, block in blocks(page.text) if "dkdbg: ignore" in block and language == "yaml"
    )
    (tmp_path / "compose.yaml").write_text("services:\n  app:\n    image: a\n" + ignored)
    (tmp_path / "train.py").unlink()
    command(["dkdbg", "audit"], tmp_path, env=environment())


def test_the_page_has_every_rule():
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "how-to/audit.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == set(RULES)


def test_the_hook_and_its_page_agree():
    (hook,) = YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")
    assert f"{{id: {hook['id']}}}" in (DOCS / "how-to/audit.md").read_text()
    options = command_line.parsed(shlex.split(hook["entry"])[1:], command_line.parser())
    assert (options.verb, options.paths) == ("audit", [])


def test_the_action_audits_and_writes_sarif(tmp_path):
    action = YAML(typ="safe").load(ROOT / "action.yml")
    (step,) = action["runs"]["steps"]
    # -m alone runs a venv.py of the audited repository
    assert not re.search(r"python3? (?!-I )", step["run"])
    venv = tmp_path / "runner" / "dkdbg" / "bin"
    venv.mkdir(parents=True)
    (venv / "pip").symlink_to("/bin/true")  # a fake: the package index is not part of this test
    (venv / "dkdbg").symlink_to(Path(sys.executable).parent / "dkdbg")
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "python3").symlink_to("/bin/true")  # likewise: the virtual environment is there
    (tmp_path / "repo" / "my app").mkdir(parents=True)
    repo = leaking(tmp_path / "repo")
    given = {"ACTION": str(ROOT), "PATHS": "my app\ntrain.py\n", "SARIF": "out.sarif"}
    assert set(given) == set(step["env"])
    path = f"{folder}:{os.environ['PATH']}"
    env = {**given, "RUNNER_TEMP": str(tmp_path / "runner"), "PATH": path}
    run = command(["bash", "-e", "-o", "pipefail", "-c", step["run"]], repo, env=env, check=False)
    assert run.returncode == 1, run.stderr
    assert "train.py:4: wait-for-client" in run.stdout
    assert "compose.yaml" not in run.stdout
    (result,) = json.loads((repo / "out.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "wait-for-client"
    (repo / "train.py").write_text("")
    env["SARIF"] = env["PATHS"] = ""
    (repo / "compose.yaml").unlink()
    command(["bash", "-e", "-c", step["run"]], repo, env=env)
