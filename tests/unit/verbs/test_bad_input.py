"""Whatever is wrong is named, with what to do next; nothing is half written and no traceback is shown."""

import shutil
import socket

import pytest

from dkdbg.errors import EXIT_CONFLICT, EXIT_ENGINE, EXIT_ERROR, EXIT_USAGE
from tests.checkout import TRAIN, checkout, run_dkdbg, snapshot

needs_cli = pytest.mark.skipif(shutil.which("docker") is None, reason="no docker command")


def refused(ran, code, *said):
    """The call failed with `code`, all of `said` in its error, and a hint."""
    text = ran.err if hasattr(ran, "err") else ran.stderr
    got = ran.code if hasattr(ran, "code") else ran.returncode
    assert got == code, text
    assert [part for part in said if part not in text] == [], text
    assert "  hint: " in text
    assert "unexpected" not in text
    assert "Traceback" not in text


BROKEN = {
    "a compose file that is no YAML": ({"compose.yaml": "services:\n  web: [x\n"}, EXIT_ERROR, "compose.yaml:3: not valid YAML", "docker compose config"),
    "a compose file with a tab": ({"compose.yaml": "services:\n\tweb: {}\n"}, EXIT_ERROR, "compose.yaml:2"),
    "a compose file that is a list": ({"compose.yaml": "- web\n"}, EXIT_ERROR, "compose.yaml:1", "`services`"),
    "a compose file whose services are a list": ({"compose.yaml": "services: [a]\n"}, EXIT_ERROR, "compose.yaml", "mapping of names to services"),
    "a compose file with a key twice": (
        {"compose.yaml": "services:\n  web:\n    image: x\n    image: y\n"}, EXIT_ERROR, "compose.yaml:4", '"image"',
    ),
    "a launch.json that is cut off": ({".vscode/launch.json": '{"configurations": [ }'}, EXIT_ERROR, ".vscode/launch.json:1:22"),
    "a launch.json that is a list": ({".vscode/launch.json": "[]"}, EXIT_CONFLICT, ".vscode/launch.json", "object"),
    "configurations that are an object": (
        {".vscode/launch.json": '{"configurations": {}}'}, EXIT_CONFLICT, ".vscode/launch.json:1:20: configurations must be an array",
    ),
    "a launch.json that is not UTF-8": ({".vscode/launch.json": b'{"x": "\xe4"}'}, EXIT_ERROR, ".vscode/launch.json", "byte 7"),
    "a tasks.json that is no JSON": ({".vscode/tasks.json": "tasks: none"}, EXIT_ERROR, ".vscode/tasks.json:1:1"),
    "a launch.json that is a folder": ({".vscode/launch.json/x": ""}, EXIT_CONFLICT, ".vscode/launch.json", "is a directory"),
    "a .vscode that is a file": ({".vscode": "x"}, EXIT_CONFLICT, "/.vscode is not a directory"),
    "a .dkdbg that is a file": ({".dkdbg": "x"}, EXIT_CONFLICT, "/.dkdbg is not a directory"),
    "a dkdbg.toml that is no TOML": ({"dkdbg.toml": "[debug\n"}, EXIT_USAGE, "dkdbg.toml is not valid TOML", "line 1"),
    "a dkdbg.toml that is not UTF-8": ({"dkdbg.toml": b"[debug]\n# \xe4\n"}, EXIT_USAGE, "dkdbg.toml:2", "0xe4"),
    "a [debug] that is no table": ({"dkdbg.toml": "debug = 3\n"}, EXIT_USAGE, "dkdbg.toml", "table"),
    "a table of dkdbg.toml that does not exist": ({"dkdbg.toml": "[debgu]\nwait = 3\n"}, EXIT_USAGE, "unknown table 'debgu'"),
    "a manifest that was merged badly": ({".dkdbg/manifest.json": "<<<<<<< HEAD\n"}, EXIT_CONFLICT, ".dkdbg/manifest.json"),
    "a journal that was cut off": ({".dkdbg/undo.json": "{"}, EXIT_CONFLICT, ".dkdbg/undo.json"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_init_refuses(tmp_path, dkdbg, case):
    files, code, *said = BROKEN[case]
    root = checkout(tmp_path / "repo", {"train.py": TRAIN, **files})
    before = snapshot(root)
    refused(dkdbg(root, "init", "--yes"), code, *said)
    assert snapshot(root) == before


def test_all_problems_of_dkdbg_toml_come_in_one_message(script, dkdbg):
    (script / "dkdbg.toml").write_text('colour = 1\n[debug]\ncommand = 3\nport = "x"\nwait = -1\nfoo = 1\n')
    before = snapshot(script)
    refused(
        dkdbg(script, "init", "--yes"), EXIT_USAGE,
        "unknown key 'colour'", "command must be a text, not 3", "port must be a whole number from 1 to 65535, not 'x'",
        "wait must be a whole number from 0 to 604800, not -1", "unknown key 'foo'",
    )  # fmt: skip
    assert snapshot(script) == before


def test_init_refuses_a_flag_that_means_nothing(script, dkdbg):
    before = snapshot(script)
    for service in ("nope", ""):
        refused(dkdbg(script, "init", "--yes", "--service", service), EXIT_USAGE, repr(service))
    for command, said in (("python 'x.py", "python 'x.py"), ("", "empty"), ("   ", "empty")):
        refused(dkdbg(script, "init", "--yes", "--command", command), EXIT_USAGE, said)
    assert snapshot(script) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("frobnicate",), "'frobnicate'"),
        (("init", "--frob"), "--frob"),
        (("init", "--yes", "--check"), "--yes"),
        (("up", "--wait-timeout", "soon"), "'soon'"),
        (("up", "--wait-timeout", "0"), "'0'"),
        (("lgos",), "did you mean dkdbg logs?"),
        (("ps", "--jsno"), "did you mean --json?"),
        (("completion", "bsh"), "did you mean dkdbg completion bash?"),
    ],
)
def test_an_unknown_word_is_named_and_the_help_is_near(script, dkdbg, words, said):
    before = snapshot(script)
    refused(dkdbg(script, *words), EXIT_USAGE, said, "--help")
    assert snapshot(script) == before


@pytest.mark.parametrize("patterns", ["", " , "])
def test_no_worker_at_all_is_not_taken_for_all_of_them(script, dkdbg, patterns):
    words = ("run", "--on", "ray://head", "--workers", patterns, "--", "python3", "driver.py")
    refused(dkdbg(script, *words), EXIT_USAGE, f"--workers {patterns!r} names no worker", "*policy*")


def test_a_folder_that_is_no_repository_a_file_or_a_loop_of_links_is_refused(tmp_path, dkdbg):
    refused(dkdbg(tmp_path, "init", "--yes"), EXIT_USAGE, str(tmp_path), "not a repository")
    assert snapshot(tmp_path) == {}
    (tmp_path / "loop").symlink_to("loop")
    refused(dkdbg(tmp_path / "loop", "init"), EXIT_USAGE, "loop")
    (tmp_path / "train.py").touch()
    refused(dkdbg(tmp_path / "train.py", "init", "--yes"), EXIT_USAGE, "train.py", "Not a directory")


@pytest.mark.parametrize("verb", ["init", "up", "down", "ps"])
def test_a_folder_that_does_not_exist_is_named_with_the_verb_that_was_typed(tmp_path, dkdbg, verb):
    said = ("nowhere", "No such file or directory", f"or name it: dkdbg -C PATH {verb}\n")
    refused(dkdbg(tmp_path / "nowhere", verb), EXIT_USAGE, *said)


def test_a_verb_before_init_says_what_is_missing(script, dkdbg):
    for verb in ("up", "down"):
        refused(dkdbg(script, verb), EXIT_USAGE, "not set up for dkdbg", "hint: dkdbg init")
    refused(dkdbg(script, "init", "--undo"), EXIT_ERROR, "nothing to undo")


@pytest.mark.parametrize(
    ("path", "mode", "said"),
    [
        (".", 0o000, "no permission for"),
        (".", 0o555, "no write permission"),
        ("compose.yaml", 0o000, "cannot read compose.yaml"),
        (".vscode", 0o555, "no write permission"),
        (".vscode/launch.json", 0o000, "cannot read .vscode/launch.json"),
        (".vscode/launch.json", 0o444, "Get it with: chmod u+w "),
        ("dkdbg.toml", 0o000, "cannot read dkdbg.toml"),
        (".env", 0o000, "cannot read .env"),
    ],
)
def test_what_this_user_may_not_touch(tmp_path, path, mode, said):
    files = {"train.py": TRAIN, "compose.yaml": "services: {}\n", ".vscode/launch.json": "{}"}
    files |= {"dkdbg.toml": "", ".env": ""}
    root = checkout(tmp_path / "repo", files)
    before = snapshot(root)
    usual = (root / path).stat().st_mode
    (root / path).chmod(mode)
    try:
        done = run_dkdbg(tmp_path, "-C", str(root), "init", "--yes")
    finally:
        (root / path).chmod(usual)
    assert done.returncode != 0
    refused(done, done.returncode, said)
    assert snapshot(root) == before


@pytest.mark.parametrize(
    ("verb", "inside"),
    [(verb, "") for verb in ("init", "up", "down", "restart", "logs", "ps", "")] + [("ps", "sub")],
)
def test_a_folder_that_may_not_be_read_is_named_with_the_verb_that_was_typed(tmp_path, verb, inside):
    root = checkout(tmp_path / "repo", {"train.py": TRAIN, "sub/a.py": TRAIN})
    root.chmod(0)
    try:
        done = run_dkdbg(tmp_path, "-C", str(root / inside), *verb.split())
    finally:
        root.chmod(0o755)
    typed = f"dkdbg -C PATH {verb}".rstrip()
    refused(done, EXIT_USAGE, f"cannot go to {root / inside}: no permission for {root}\n")
    assert done.stderr.endswith(f"  hint: ls -ld {root} shows who owns it; another folder: {typed}\n")


def test_a_source_file_that_cannot_be_read_is_left_out_and_named(tmp_path):
    root = checkout(tmp_path / "repo", {"train.py": TRAIN, "requirements.txt": "requests\n"})
    (root / "requirements.txt").chmod(0)
    done = run_dkdbg(root, "init", "--diff")
    assert done.returncode == 0
    assert "requirements.txt: Permission denied" in done.stdout


@pytest.mark.parametrize("verb", ["up", "down"])
def test_no_docker_command(initialised, tmp_path, verb):
    before = snapshot(initialised)
    refused(run_dkdbg(initialised, verb, env={"PATH": str(tmp_path / "empty")}), 127, "'docker'")
    assert snapshot(initialised) == before


@needs_cli
@pytest.mark.parametrize(
    ("verb", "setting", "said"),
    [
        ("up", {"DOCKER_HOST": "unix:///nonexistent.sock"}, ("no Docker engine answers", "docker info")),
        ("down", {"DOCKER_HOST": "unix:///nonexistent.sock"}, ("no Docker engine answers", "docker info")),
        ("up", {"DOCKER_CONTEXT": "nope"}, ("which engine to ask", "docker context ls")),
        ("up", {"DOCKER_HOST": "foo://bar"}, ("which engine to ask", "docker context ls")),
    ],
)
def test_an_engine_that_is_down_or_that_docker_cannot_find(initialised, verb, setting, said):
    before = snapshot(initialised)
    refused(run_dkdbg(initialised, verb, env=setting), EXIT_ENGINE, *said, *setting.values())
    assert snapshot(initialised) == before


@needs_cli
def test_verify_names_an_engine_that_is_down_before_it_speaks_of_a_taken_port(initialised):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        (initialised / ".env").write_text(f"DKDBG_PORT={port}\n")
        launch = initialised / ".vscode" / "launch.json"
        launch.write_text(launch.read_text().replace("5678", port))
        done = run_dkdbg(initialised, "verify", env={"DOCKER_HOST": "unix:///nonexistent.sock"})
    assert "no Docker engine answers" in done.stdout
    assert "port-taken" not in done.stdout


@needs_cli
def test_an_engine_whose_socket_is_forbidden(initialised, tmp_path):
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        engine.listen()
        path.chmod(0)
        before = snapshot(initialised)
        done = run_dkdbg(initialised, "up", env={"DOCKER_HOST": f"unix://{path}"})
    refused(done, EXIT_ENGINE, "may not use its socket", str(path), "group")
    assert snapshot(initialised) == before


@pytest.mark.skipif(shutil.which("squeue") is not None, reason="this machine has Slurm")
def test_where_no_commands_of_slurm_are_nothing_is_waited_for(tmp_path):
    root = checkout(tmp_path / "repo", {"train.py": TRAIN})
    for words in (("attach", "slurm:///7"), ("run", "--on", "slurm:///7", "--", "true")):
        refused(
            run_dkdbg(root, *words),
            EXIT_ERROR,
            "cannot find the commands of Slurm in PATH",
            "slurm://LOGIN/JOB",
        )
    submitted = run_dkdbg(root, "submit", "--nodes", "2", "--", "python", "train.py")
    refused(
        submitted,
        EXIT_ERROR,
        "cannot find the commands of Slurm in PATH",
        "dkdbg submit --on slurm://LOGIN ...",
    )


@pytest.mark.parametrize("port", ["abc", "99999", "²", "9" * 5000])
def test_a_port_of_this_machine_that_is_none_is_named(tmp_path, port):
    ran = run_dkdbg(tmp_path, "run", "--on", "local:", "--", "true", env={"DKDBG_PORT": port})
    refused(ran, EXIT_USAGE, "DKDBG_PORT is", "which is not a port", "unset DKDBG_PORT")
