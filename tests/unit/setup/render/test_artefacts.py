"""What is shipped beside the package."""

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.repository.artefacts import artefact


def test_an_installation_that_lacks_a_file_is_installed_again_with_no_release_to_name():
    with pytest.raises(DkdbgError, match="this installation lacks templates/gone") as caught:
        artefact("templates", "gone")
    assert caught.value.hint == "reinstall dkdbg"
