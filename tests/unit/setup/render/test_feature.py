"""The dev container Feature as it is copied beside a devcontainer.json."""

import json

import dkdbg
from dkdbg.setup.render.feature import FOLDER, feature_files

AGENT = b"#!/bin/sh\n"


def test_the_feature_comes_with_the_agent_its_folders_name_and_no_option_that_a_shell_needs():
    files = feature_files(AGENT)
    assert {*files} == {"agent.pyz", "devcontainer-feature.json", "install.sh"}
    assert files["install.sh"].startswith(b"#!/bin/sh\n")
    feature = json.loads(feature_files(AGENT)["devcontainer-feature.json"])
    assert (feature["id"], feature["version"]) == (FOLDER, dkdbg.__version__)
    feature = json.loads(feature_files(AGENT)["devcontainer-feature.json"])
    assert not {name.upper() for name in feature["options"]} & {"PATH", "HOME", "USER", "SHELL", "IFS", "ENV"}
