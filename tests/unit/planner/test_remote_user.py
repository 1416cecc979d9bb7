"""The user of the dev container: the image's own where it has a name, else the one that our Feature makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dkdbg.model.config import Config
from dkdbg.model.facts import DockerfileFact, PythonFact, RepoFacts, ServiceFact
from dkdbg.planner.project import REMOTE_USER, plan_project


def remote_user(**values):
    python = PythonFact(version="3.11", source="test")
    facts = RepoFacts(root=Path("/r"), name="r", python=python, package_manager="none", **values)
    return plan_project(facts, Config(command="python train.py")).remote_user


def test_an_image_of_ours_has_no_user_of_its_own():
    assert remote_user() == REMOTE_USER


def test_the_user_of_the_repositorys_dockerfile_is_taken():
    assert (
        remote_user(dockerfiles=(DockerfileFact(path="Dockerfile", base="b", user="trainer:users"),))
        == "trainer"
    )


@pytest.mark.parametrize("user", [None, "root", "0:0", "1000", "${UID}:${GID}"])
def test_root_a_number_or_a_variable_is_no_user_to_reopen_as(user):
    service = ServiceFact(name="train", file="compose.yaml", image="i", user=user, is_python=True)
    found = remote_user(services=(service,), service=service, compose_files=("compose.yaml",))
    assert found == REMOTE_USER
