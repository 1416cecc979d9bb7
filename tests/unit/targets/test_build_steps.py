"""The log of an image build as BuildKit 0.12 and Podman 4.3 have written it."""

from dkdbg.targets.docker.build_steps import BuildSteps

BUILDKIT = r"""
#0 building with "default" instance using docker driver

#1 [app internal] load build definition from Dockerfile
#1 transferring dockerfile: 133B done
#1 DONE 0.0s

#4 [app 1/3] FROM docker.io/dkdbg-test/python:3.11
#4 CACHED

#5 [app 2/3] RUN echo hello && sleep 1 && echo more
#5 0.150 hello
#5 1.152 more
#5 DONE 1.2s

#6 [app 3/3] RUN printf "a\nb\n" && false
#6 0.127 a
#6 0.127 b
""".strip("\n").splitlines()
FAILS = r"""
#6 ERROR: process "/bin/sh -c printf \"a\\nb\\n\" && false" did not complete successfully: exit code: 1
------
 > [app 3/3] RUN printf "a\nb\n" && false:
0.127 a
------
failed to solve: process "/bin/sh -c printf \"a\\nb\\n\" && false" did not complete successfully: exit code: 1
""".strip("\n").splitlines()
ENDS = """
#6 DONE 0.2s

#7 [app] exporting to image
#7 exporting layers 0.0s done
#7 DONE 0.0s
 Container bp-app-1  Creating
""".strip("\n").splitlines()


def test_each_line_of_a_build_is_a_step_and_its_share_grows():
    steps = BuildSteps()
    seen = [steps.read(line) for line in BUILDKIT]
    assert None not in seen
    step = seen[BUILDKIT.index("#5 1.152 more")]
    assert step.text == "building 2/3: RUN echo hello && sleep 1 && echo more | more"
    shares = [each.share for each in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 2 / 3


def test_a_step_that_fails_brings_all_that_its_command_printed_and_a_build_that_ends_well_nothing():
    steps = BuildSteps()
    for line in BUILDKIT:
        steps.read(line)
    first, *rest = [steps.read(line) for line in FAILS]
    assert first.log == ("#6 0.127 a", "#6 0.127 b", FAILS[0])
    assert rest == [None] * 5  # shown as they are
    steps = BuildSteps()
    seen = [steps.read(line) for line in [*BUILDKIT, *ENDS]]
    assert seen[-1] is None
    assert [each.log for each in seen[:-1] if each.log] == []
    assert seen[-2].share == 1
    assert steps.left() == ()


STAGES = "#1 [web build 1/2] FROM x|#1 DONE 0.1s|#2 [db stage-1 1/4] FROM y|#2 CACHED|#3 [web build 2/2] RUN a|#3 DONE 3.0s"


def test_stages_that_run_beside_each_other_and_begin_late_never_take_the_bar_back():
    steps = BuildSteps()
    shares = [steps.read(line).share for line in STAGES.split("|")]
    assert shares == [0, 1 / 2, 1 / 2, 1 / 2, 1 / 2, 1 / 2]


PODMAN = "STEP 1/2: FROM python:3.11|STEP 2/2: RUN pip install x|Collecting x|ERROR: no such x"


def test_podmans_lines_are_held_back_and_shown_where_it_ends_in_them():
    steps = BuildSteps()
    seen = [steps.read(line) for line in PODMAN.split("|")]
    assert seen[2].text == "building 2/2: RUN pip install x | Collecting x"
    end = 'Error: building at STEP "RUN pip install x": exit status 1'
    assert steps.read(end).log == ("Collecting x", "ERROR: no such x", end)
    assert steps.left() == ()
    steps = BuildSteps()
    for line in PODMAN.split("|"):
        steps.read(line)
    assert steps.left() == ("Collecting x", "ERROR: no such x")


NO_BUILD = "engine 26.1.5; GPU: none| Container a-1  Started|# a heading|#7 loss 0.3|#nine [x] y|step 1/2: x"


def test_what_is_no_build_is_left_alone():
    steps = BuildSteps()
    assert [steps.read(line) for line in NO_BUILD.split("|")] == [None] * 6
