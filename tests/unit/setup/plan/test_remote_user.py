"""The user of the dev container: the image's own where it has a name, else the one that our Feature makes."""

import pytest

from dkdbg.core.config import Config
from dkdbg.setup.plan.project import REMOTE_USER
from tests.unit.setup.plan.given import dockerfile, of_service, plan, service

TRAIN = Config(command="python train.py")


def test_an_image_of_ours_has_no_user_of_its_own_and_that_of_the_repositorys_dockerfile_is_taken():
    assert plan(TRAIN).remote_user == REMOTE_USER
    assert plan(TRAIN, dockerfiles=(dockerfile(user="trainer:users"),)).remote_user == "trainer"


@pytest.mark.parametrize("user", [None, "root", "0:0", "1000", "${UID}:${GID}"])
def test_root_a_number_or_a_variable_is_no_user_to_reopen_as(user):
    own = service(None, context=None, image="i", user=user, is_python=True)
    assert of_service(own, TRAIN).remote_user == REMOTE_USER
