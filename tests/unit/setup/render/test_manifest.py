"""What `init` leaves for `up` and `down`: the debug service, as long as nothing that it came from has changed."""

import pytest

from dkdbg.setup.render import changes, manifest
from dkdbg.verbs.parts.repository import files_for, make_plan
from tests.checkout import TRAIN, checkout


@pytest.fixture
def root(tmp_path):
    root = checkout(tmp_path / "script", {"train.py": TRAIN})
    plan, config = make_plan(root)
    wanted = files_for(root, plan, config)
    changes.apply(root, changes.between(root, wanted), changes.Journal(root=root))
    return root


def test_the_service_is_the_plans_whatever_comments_dkdbg_toml_has_and_unknown_before_init(root, tmp_path):
    plan, _ = make_plan(root)
    assert manifest.debug_service(root) == plan.debug_service
    with (root / "dkdbg.toml").open("a") as file:
        file.write("# ours\n")
    assert manifest.debug_service(root) is not None
    assert manifest.debug_service(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text"), [("dkdbg.toml", "[debug]\nport = 6000\n"), ("compose.yaml", "services: {}\n"), ("compose.yaml", None)]
)  # fmt: skip
def test_it_is_not_known_any_more_when_what_it_came_from_has_changed(root, name, text):
    if text is None:
        (root / name).unlink()
    else:
        (root / name).write_text(text)
    assert manifest.debug_service(root) is None
