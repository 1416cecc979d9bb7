"""Command lines that start Python programs."""

import pytest

from dkdbg.launchers.lines.blanks import as_words, has_blank
from dkdbg.launchers.lines.command_lines import parse_line


@pytest.mark.parametrize(
    ("line", "launcher", "target"),
    [
        ("$ python3.10 -u train.py", "python", "train.py"),
        ("(venv) user@host:~/x$ python train.py", "python", "train.py"),
        ("!python train.py", "python", "train.py"),
        ("python -W ignore -m pkg.train", "python", "pkg.train"),
        ("$PYTHON train.py", "python", "train.py"),
        ("./train.py", "python", "./train.py"),
        ("train.py --lr 1", "python", "train.py"),
        ("uv run --extra gpu train.py", "python", "train.py"),
        ("conda run -n env --no-capture-output python app.py", "python", "app.py"),
        ("nohup python train.py > log.txt 2>&1 &", "python", "train.py"),
        ("python -m debugpy --listen 5678 --wait-for-client train.py", "python", "train.py"),
        ("docker run --gpus all -v $PWD:/w -w /w img python train.py", "python", "train.py"),
        ("docker compose run --rm app python train.py", "python", "train.py"),
        ("dumb-init -- python app.py", "python", "app.py"),
        ("exec gosu app python app.py", "python", "app.py"),
    ],
)  # fmt: skip
def test_a_line_starts(line, launcher, target):
    (found,) = parse_line(line)
    assert (found.launcher, found.target) == (launcher, target)


@pytest.mark.parametrize(
    "line",
    [
        "pip install -r requirements.txt", "python -m pip install torch", "python setup.py", "python -c 'print(1)'",
        "python -m venv .venv", "python --version", "python -m pytest tests", "git clone x", "train.py", "cd src",
        "conda env create -f environment.yml", "python manage.py migrate", "docker build .", "uv sync --extra gpu", "",
        "# python train.py", "\u251c\u2500\u2500 train.py", "python <your script>", "jupyter kernelspec list", "make train",
        "docker compose up -d", "uvicorn --help", "curl http://x | bash",
    ],
)  # fmt: skip
def test_a_line_starts_no_program(line):
    assert [found for found in parse_line(line) if found.target != "setup.py"] == []


def test_console_scripts_chains_and_shell_scripts_are_seen_as_a_person_types_them():
    (found,) = parse_line("my-tool --port 1", {"my-tool"})
    assert (found.launcher, found.target, found.args) == ("console-script", "my-tool", ("--port", "1"))
    found = parse_line("python prepare.py && python train.py; uvicorn a:b")
    assert [each.target for each in found] == ["prepare.py", "train.py", "a"]
    (found,) = parse_line("$ CUDA_VISIBLE_DEVICES=0 uv run python train.py --name 'a b'  # comment")
    assert found.command == "python train.py --name 'a b'"
    (found,) = parse_line("bash runs/speedrun.sh 1")
    assert (found.shell_script, found.target) == ("runs/speedrun.sh", None)
    (found,) = parse_line('exec python launch.py "$@"')
    assert (found.command, found.args) == ("python launch.py", ())


@pytest.mark.parametrize("words", ["--data /path/to/x", "<file>", "$DATA", "--key YOUR_KEY"])
def test_something_to_fill_in_is_seen(words):
    assert has_blank(f"python a.py {words}")


def test_plain_arguments_and_lists_are_nothing_to_fill_in_and_an_option_in_brackets_is_left_out():
    assert not has_blank("python a.py --lr 0.1 config/base.yaml")
    line = "python main.py --cfg a.yaml [--batch-size <size> --tag <tag>] [--resume [--from last] -v]"
    assert as_words(line) == ("python", "main.py", "--cfg", "a.yaml")
    assert has_blank("python main.py [--amp]")
    line = "python main.py gpus=[0,1] --layers [-1,2]"
    assert as_words(line)[2:] == ("gpus=[0,1]", "--layers", "[-1,2]")
    assert not has_blank(line)
