"""A start that fails is named by the link that is broken: real texts of the engine, as `explain` passes them on."""

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.proof.program_end import Around, of_start
from dkdbg.targets.docker.engine_errors import explain

AROUND = Around(installs_from=lambda name: ("requirements.txt", name, "dkdbg verify"))


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "engine-absent"),
        ('Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]', "gpu-absent"),
        ("Error response from daemon: unknown or invalid runtime name: nvidia", "gpu-absent"),
        ("Bind for 127.0.0.1:8000 failed: port is already allocated", "port-taken"),
        ("Error response from daemon: Address already in use", "address-taken"),
        ("failed to solve: python:3.99: failed to resolve source metadata for docker.io/library/python:3.99", "base-image-absent"),
        ("no such service: trainer-debug", "service-absent"),
        ("#8 ERROR: No matching distribution found for uv\nrequests: SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed')", "index-untrusted"),
        ("#8 ERROR: No matching distribution found for x\n  Caused by: invalid peer certificate: UnknownIssuer", "index-untrusted"),
        ("write /var/lib/docker/tmp/x: no space left on device", "disk-full"),
        ("#9 0.2 mkdir: cannot create directory 'weights': File exists\nfailed to solve: process \"/bin/sh -c mkdir weights\" did not complete", "folder-exists"),
        ("dependency failed to start: container x-db-1 is unhealthy", "dependency-fails"),
        ('service "migrate" didn\'t complete successfully: exit 1', "dependency-fails"),
        ("Error response from daemon: network shared not found", "external-absent"),
        ('external volume "models" not found', "external-absent"),
        ('unable to start container process: exec: "sh": executable file not found in $PATH: unknown', "shell-missing"),
    ],
)  # fmt: skip
def test_errors_of_the_engine(output, cause):
    found = of_start(explain(1, output), [output], AROUND)
    assert found.cause == cause
    assert found.remedy
    assert "compose logs" not in found.remedy  # the containers of a proof are gone by then


def test_an_error_of_another_kind_keeps_its_message_and_its_hint():
    found = of_start(DkdbgError("the moon is in the way", hint="wait"), [], AROUND)
    assert (found.cause, found.says, found.remedy) == ("not-started", "the moon is in the way", "wait")


FAILED = '#8 ERROR: process "/bin/sh -c pip install -r requirements.txt" did not complete successfully: exit code: 1'


@pytest.mark.parametrize(
    ("said", "subject", "remedy"),
    [
        ("#8 31.42 error: Failed to build `scikit-learn==0.21.3`\n#8 31.42   cause: The build backend returned an error", "scikit-learn==0.21.3", "dkdbg init --python"),
        ("#8 1.1 error: Failed to build `sklearn==0.0.post12`\n#8 1.2 The 'sklearn' PyPI package is deprecated, use 'scikit-learn'\n#8 1.2 rather than", "sklearn", "scikit-learn in place of sklearn"),
        ("#8 9.1 ERROR: Failed building wheel for mpi4py\n#8 9.1 error: command 'gcc' failed: No such file or directory", "mpi4py", "build-essential"),
        ("#8 9.1 ERROR: Failed to build 'numpy' when getting requirements to build wheel", "numpy", "another version"),
        ("#8 2.2 ERROR: No matching distribution found for torch==1.7.1", "torch==1.7.1", "dkdbg init --python"),
        ("#8 1.1 ERROR: No matching distribution found for uv\n#8 2.2 ERROR: No matching distribution found for torch==1.7.1", "torch==1.7.1", "dkdbg init --python"),
        ("#8 2.2   x No solution found when resolving dependencies:\n#8 2.2   `-> Because there is no version of torch==1.7.1 and you require", "torch==1.7.1", "another version"),
        ("#8 2.2   `-> Because nonesuch was not found in the package registry and you require", "nonesuch", "correct its name"),
    ],
)  # fmt: skip
def test_a_requirement_that_the_image_cannot_install_is_named(said, subject, remedy):
    lines = [*said.splitlines(), "#8 31.5 ModuleNotFoundError: No module named 'pkg_resources'", FAILED]
    found = of_start(DkdbgError("docker failed with exit code 17:"), lines, AROUND)
    assert (found.link, found.cause, found.subject) == ("image", "requirement-fails", subject)
    assert subject in found.says
    assert remedy in found.remedy


def test_a_build_that_fails_for_another_reason_shows_its_last_lines_and_is_not_sent_back_to_verify():
    error = DkdbgError(
        "docker failed with exit code 17:", hint="dkdbg verify names what the image cannot install"
    )
    said = ("#8 1.0 cc1plus: out of memory", FAILED)
    found = of_start(error, said, AROUND)
    assert (found.link, found.cause, found.detail) == ("image", "build-fails", said)
    assert found.remedy.startswith("docker compose ")


LONG = "RUN make all && " + "x" * 200


@pytest.mark.parametrize(
    ("step", "said", "says"),
    [
        ("RUN make all", ("0.383 cc a.c", "1.954 make: *** [all] Error 2", "1.96 [notice] done"), "RUN make all failed: make: *** [all] Error 2"),
        ("RUN ./x.sh", ("0.3 one", "0.4 the last line"), "RUN ./x.sh failed: the last line"),
        ("RUN false", (), "RUN false failed: it printed nothing"),
        (LONG, ("0.4 error: a",), f"{LONG[:120]} failed: error: a"),
    ],
)  # fmt: skip
def test_a_build_that_fails_is_named_by_its_step_with_the_lines_of_that_step_once(step, said, says):
    ends = f'process "/bin/sh -c {step[4:]}" did not complete successfully: exit code: 2'
    output = [
        "#6 0.1 error: another step's, which goes on", *(f"#7 {each}" for each in said), f"#7 ERROR: {ends}", "------",
        f" > [job-debug 3/4] {step}:", *said, "------", f"failed to solve: {ends}",
    ]  # fmt: skip
    found = of_start(explain(17, "\n".join(output)), output, AROUND)
    assert (found.cause, found.says, found.detail) == ("build-fails", f"the step {says}", said)
    assert ("docker compose --profile debug build" if said else "remove its -q") in found.remedy


def test_a_package_that_apt_does_not_find_is_named():
    said = ["#7 1.954 E: Unable to locate package libgl1-nope", FAILED]
    found = of_start(DkdbgError("docker failed with exit code 17:"), said, AROUND)
    assert (found.link, found.cause) == ("image", "requirement-fails")
    assert found.says == "apt finds no package libgl1-nope in the image"


def test_a_python_of_the_distribution_is_named_where_pip_refuses_it():
    said = "#8 0.49 error: externally-managed-environment\n#8 0.49 hint: See PEP 668 for the detailed specification."
    found = of_start(DkdbgError("docker failed with exit code 17:"), [*said.splitlines(), FAILED], AROUND)
    assert (found.link, found.cause) == ("image", "requirement-fails")
    assert "venv /opt/venv" in found.remedy
