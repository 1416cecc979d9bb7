"""What `init` leaves for `up` and `down`: the debug service, as long as nothing that it came from has changed."""

import pytest

from dkdbg.setup.render import manifest
from dkdbg.verbs.parts.repository import make_plan


def test_the_service_is_the_plans_whatever_comments_dkdbg_toml_has_and_unknown_before_init(
    initialised, tmp_path
):
    plan, _ = make_plan(initialised)
    assert manifest.debug_service(initialised) == plan.debug_service
    with (initialised / "dkdbg.toml").open("a") as file:
        file.write("# ours\n")
    assert manifest.debug_service(initialised) is not None
    assert manifest.debug_service(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text"), [("dkdbg.toml", "[debug]\nport = 6000\n"), ("compose.yaml", "services: {}\n"), ("compose.yaml", None)]
)  # fmt: skip
def test_it_is_not_known_any_more_when_what_it_came_from_has_changed(initialised, name, text):
    if text is None:
        (initialised / name).unlink()
    else:
        (initialised / name).write_text(text)
    assert manifest.debug_service(initialised) is None
