"""Decisions with rivals: what `init` asks about, and what it says instead where it cannot ask."""

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.setup.plan.choices import unasked
from dkdbg.verbs.parts.repository import make_plan
from tests.unit.project import SLIM, TRAIN


def choices(project, **asked):
    return {each.topic: each for each in make_plan(project.root, **asked)[0].choices}


def close(project, **asked):
    return {
        topic: [option.value for option in each.options[: each.close]]
        for topic, each in choices(project, **asked).items()
        if each.close > 1
    }


def test_nothing_is_asked_where_the_sources_agree(project):
    project.write("train.py", TRAIN).program("tools/prepare.py").write(".python-version", "3.12\n")
    project.readme("python train.py --epochs 1")
    assert close(project) == {}
    (chosen, *others) = choices(project)["command"].options
    assert (chosen.value, chosen.source) == ("python train.py --epochs 1", "README.md:4")
    assert [each.value for each in others] == ["python tools/prepare.py"]


def test_two_programs_alike_are_asked_about_with_their_evidence_and_a_flag_ends_the_doubt(project):
    project.write("a/fit_a.py", TRAIN).write("b/fit_b.py", TRAIN)
    project.readme("python a/fit_a.py", "python b/fit_b.py --lr 1")
    assert close(project)["command"] == ["python a/fit_a.py", "python b/fit_b.py --lr 1"]
    (line,) = unasked(make_plan(project.root)[0].choices)
    assert "python b/fit_b.py --lr 1  (README.md:5)" in line
    assert "--command" in line
    assert "command" not in choices(project, command="python b/fit_b.py")


def test_where_no_program_stands_out_the_best_three_are_asked_about_before_notebooks(project):
    for name in "abcd":
        project.write(f"lib/{name}/bench.py", "if __name__ == '__main__':\n    print(1)\n")
    project.write("lib/a/broken.py", "if __name__ == '__main__':\nprint(1)\n").write("demo.ipynb", "{}")
    assert close(project)["command"] == ["sleep infinity", *(f"python lib/{name}/bench.py" for name in "abc")]
    (line,) = [each for each in make_plan(project.root)[0].notes if "the container idles; open" in each]
    assert line.startswith("no program that stands out: ")


def test_the_program_of_an_image_leaves_no_doubt_and_the_others_are_candidates(project):
    project.write("Dockerfile", SLIM + 'CMD ["python", "serve.py"]\n').program("serve.py").program("fit.py")
    project.readme("python fit.py", "python serve.py")
    found = choices(project)["command"]
    assert (found.close, found.options[0].value) == (1, "python serve.py")
    assert found.options[0].program.file == "serve.py"
    assert "python fit.py" in [each.value for each in found.options]


def test_services_alike_are_asked_about_and_a_worker_is_only_a_candidate(project):
    command = "{build: ., volumes: ['.:/app'], command: "
    services = f"  web: {command}python web.py}}\n  api: {command}python api.py}}\n  worker: {command}celery -A web worker}}\n"
    project.write("compose.yaml", f"services:\n{services}").write("Dockerfile", SLIM)
    project.program("web.py").program("api.py")
    assert close(project)["service"] == ["web", "api"]
    assert [each.value for each in choices(project)["service"].options] == ["web", "api", "worker"]
    assert "service" not in choices(project, service="api")


def test_dockerfiles_alike_are_asked_about_and_one_for_other_hardware_is_the_last(project):
    for name, base in (
        ("amd", "rocm/pytorch"),
        ("cpu", "python:3.11"),
        ("nvidia", "nvidia/cuda:12.9.0-base-ubuntu22.04"),
    ):
        project.write(f"Dockerfile.{name}", f"FROM {base}\nWORKDIR /app\nCOPY . .\nCMD python main.py\n")
    project.program("main.py")
    assert close(project)["dockerfile"] == ["Dockerfile.cpu", "Dockerfile.nvidia"]
    assert choices(project)["dockerfile"].options[-1].value == "Dockerfile.amd"
    plan, config = make_plan(project.root, dockerfile="Dockerfile.nvidia")
    assert (plan.image.dockerfile, config.dockerfile) == ("Dockerfile.nvidia", "Dockerfile.nvidia")
    project.write("Dockerfile", SLIM)
    assert "dockerfile" not in close(project)


def test_a_dockerfile_by_name_is_taken_without_a_service_and_one_that_is_missing_is_refused(project):
    project.write("compose.yaml", "services: {web: {build: ., command: python web.py}}\n")
    project.write("Dockerfile", SLIM).program("web.py")
    project.write("train/Dockerfile", "FROM python:3.10\nCOPY requirements.txt .\nCOPY fit.py /code/\n")
    project.write("train/fit.py", TRAIN).write("train/requirements.txt", "torch\n")
    plan, _ = make_plan(project.root, dockerfile="train/Dockerfile")
    assert (plan.service.extends, plan.image.dockerfile) == (None, "train/Dockerfile")
    with pytest.raises(
        DkdbgError, match="no Dockerfile 'other/Dockerfile' here; there are: Dockerfile, train/Dockerfile"
    ):
        make_plan(project.root, dockerfile="other/Dockerfile")


def test_documents_that_name_two_pythons_are_a_question_a_pin_is_none(project):
    project.write("train.py", TRAIN).write("README.md", "Use Python 3.9.\n").write(
        "INSTALL.md", "Python 3.10\n"
    )
    assert close(project)["python"] == ["3.9", "3.10"]
    assert make_plan(project.root, python="3.10")[0].image.base == "python:3.10-slim"
    project.write(".python-version", "3.12\n")
    assert "python" not in close(project)
    assert [each.value for each in choices(project)["python"].options][:3] == ["3.12", "3.9", "3.10"]


def test_a_script_that_publishes_a_port_may_be_a_server_and_one_that_serves_is_none_to_wait_for(project):
    project.write("Dockerfile", SLIM + "EXPOSE 8000\nCMD python job.py\n").program("job.py")
    assert close(project)["wait"] == ["0", "600"]
    project.program("job.py", "app.run(host='0.0.0.0', port=5001)")
    assert "wait" not in close(project)
    project.empty().program("web.py", "import flask\napp = flask.Flask(__name__)\napp.run(port=5001)")
    plan = make_plan(project.root)[0]
    assert (plan.service.wait, plan.service.app_ports) == (0, (5001,))
    project.program("web.py", "from absl import app\ndef main(argv): ...\napp.run(main)")
    assert make_plan(project.root)[0].service.wait > 0


def test_the_need_for_a_gpu_can_be_stated(project):
    project.write("train.py", TRAIN)
    assert make_plan(project.root, gpu="required")[0].service.needs_gpu
    assert not make_plan(project.root, gpu="none")[0].service.gpu


@pytest.mark.parametrize(
    ("base", "is_said"),
    [
        ("gcr.io/distroless/python3-debian12", True),
        ("gcr.io/distroless/python3-debian12:debug", False),
        ("scratch", True),
        ("python:3.11-slim", False),
    ],
)
def test_an_image_without_a_shell_is_said_and_its_python_runs_the_agent(project, base, is_said):
    project.write(
        "Dockerfile", f'FROM {base}\nWORKDIR /app\nCOPY . .\nENTRYPOINT ["python3", "app.py"]\n'
    ).program("app.py")
    plan = make_plan(project.root)[0]
    assert any("no /bin/sh" in note for note in plan.notes) == is_said
    assert plan.service.agent[0] == ("python3" if is_said else "sh")


@pytest.mark.parametrize(
    ("base", "python"),
    [
        ("gcr.io/distroless/python3-debian12:nonroot", "/usr/bin/python3"),
        ("cgr.dev/chainguard/python:latest", "/usr/bin/python"),
    ],
)
def test_the_arguments_of_an_image_for_python_without_a_shell_follow_its_own_python(project, base, python):
    project.write("Dockerfile", f'FROM {base}\nWORKDIR /app\nCOPY . .\nCMD ["app.py", "-v"]\n').program(
        "app.py"
    )
    service = make_plan(project.root)[0].service
    assert (service.argv, service.agent[0]) == ((python, "app.py", "-v"), python)


def test_a_program_that_is_not_a_python_cannot_start_the_agent_without_a_shell(project):
    project.write("Dockerfile", 'FROM scratch\nWORKDIR /app\nCOPY . .\nCMD ["/bin/serve"]\n').program(
        "app.py"
    )
    plan = make_plan(project.root)[0]
    assert plan.service.agent[0] == "sh"
    assert any("use a variant with a shell" in note for note in plan.notes)
