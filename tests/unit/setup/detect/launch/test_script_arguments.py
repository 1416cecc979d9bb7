"""Launch lines inside shell scripts, with the arguments that a README passes to the script."""

import pytest

from dkdbg.launchers.lines.blanks import without_blanks
from dkdbg.setup.detect.files import Tree
from dkdbg.setup.detect.launch.launches import gather

LAUNCH = "python -m torch.distributed.run --nproc_per_node=$GPUS train.py $CONFIG ${@:3}\n"


@pytest.mark.parametrize(
    ("script", "line", "command"),
    [
        ("python train.py -c $1 -m $2\n", "sh run.sh a.json base", "python train.py -c a.json -m base"),
        ("CONFIG=$1\npython train.py -c ${CONFIG}\n", "bash run.sh a.json", "python train.py -c a.json"),
        ("python train.py ${1:-a.yaml}\n", "bash run.sh", "python train.py a.yaml"),
        ("python train.py ${1:-a.yaml}\n", "bash run.sh b.yaml", "python train.py b.yaml"),
        (f"CONFIG=$1\nGPUS=$2\n{LAUNCH}", "./run.sh a.py 8 --seed 1",
         "python -m torch.distributed.run --nproc_per_node=8 train.py a.py --seed 1"),
        ('CFG=$1\nshift\npython train.py $CFG "$@"\n', "bash run.sh a.yaml --lr 1", "python train.py a.yaml --lr 1"),
        ("RUN=${@:2}\npython train.py ${RUN}\n", "bash run.sh 8 --lr 1 --amp", "python train.py --lr 1 --amp"),
        ("python train.py $1 ${@:3}\n", "bash run.sh a.py 8", "python train.py a.py"),
        ("MORE=${@:1}\npython train.py --lr 1 ${MORE}\n", "bash run.sh", "python train.py --lr 1"),
        ('python train.py --lr 1 "$@"\n', "bash run.sh", "python train.py --lr 1"),
        ("python train.py -c $1\n", "bash run.sh 'a;b'", "python train.py -c $1"),
    ],
)  # fmt: skip
def test_the_arguments_of_a_documented_script_are_put_into_its_lines(project, script, line, command):
    project.write("train.py", "import torch\nloss.backward()\n").write("run.sh", script).readme(line)
    assert project.facts().entrypoint.command == command


@pytest.mark.parametrize(
    "folder",
    [
        '$(dirname "$0")',
        "`dirname $0`",
        "$(dirname -- ${BASH_SOURCE[0]})",
        '$(cd "$(dirname "$0")" && pwd)',
        "$ROOT/tools",
    ],
)
def test_the_folder_of_a_script_in_its_lines_is_that_folder(project, folder):
    project.write("tools/train.py", "import torch\nloss.backward()\n").readme(
        "bash tools/dist_train.sh a.py 8"
    )
    line = f'PYTHONPATH="$(dirname $0)/..":$PYTHONPATH \\\npython {folder}/train.py $1 --launcher pytorch\n'
    project.write("tools/dist_train.sh", f'ROOT="$(cd "$(dirname "$0")/.." && pwd)"\n{line}')
    entry = project.facts().entrypoint
    assert (entry.command.replace("./", ""), entry.assigned) == (
        "python tools/train.py a.py --launcher pytorch", ("PYTHONPATH=.",),
    )  # fmt: skip


def test_an_option_m_of_the_program_goes_with_its_placeholder_and_that_of_python_stays():
    assert without_blanks(["python", "train.py", "-m", "$DIR"]) == (("python", "train.py"), ("-m $DIR",))
    assert without_blanks(["python", "-m", "$MODULE"]) == (("python", "-m"), ("$MODULE",))


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("export PYTHONPATH=$PWD", "."),
        ('export PYTHONPATH="${PYTHONPATH}:$(pwd)/src"', "src"),
        ("export PYTHONPATH=./lib:src:${PYTHONPATH:+:$PYTHONPATH}", "lib:src"),
        ("export PYTHONPATH=/opt/kit:$PYTHONPATH", ""),
    ],
)
@pytest.mark.parametrize("is_script", [False, True])
def test_a_pythonpath_that_a_readme_or_script_exports_holds_for_its_programs(project, line, path, is_script):
    project.program("tools/train.py").write("run.sh", f"{line}\npython tools/train.py\n")
    project.readme("bash run.sh") if is_script else project.readme(line, "python tools/train.py")
    assigned = project.facts().entrypoint.assigned
    assert assigned == ((f"PYTHONPATH={path}",) if path else ())


def test_a_line_for_one_machine_comes_before_one_for_several(project):
    project.program("train.py").readme(
        "python train.py --num_machines 2 --rank 0", "python train.py -b 8 [--amp]"
    )
    assert project.facts().entrypoint.command == "python train.py -b 8 [--amp]"


@pytest.mark.parametrize("word", ["$@", "$1", '$(dirname "$0")'])
def test_a_hostile_script_grows_by_its_arguments_and_its_folder_only_up_to_a_limit(project, word):
    """A script of 80,000 `$@`, called with 4,000 characters, took 8 GB and two minutes of `dkdbg init`."""
    folder = "/".join(["d" * 200] * 2)
    line = f"python train.py {' '.join([word] * 500)}\n"
    project.write("train.py", "import torch\nloss.backward()\n").write(f"{folder}/run.sh", line)
    project.readme(f"bash {folder}/run.sh {'a' * 1000}")
    lengths = [len(" ".join(each.launch.args)) for each in gather(Tree(project.root), ())]
    assert lengths
    assert max(lengths) < len(line) + 10_000
