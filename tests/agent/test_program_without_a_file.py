"""A program without a file of its own, in a zip or from standard input: the editor is told."""

import zipapp

import pytest

from tests.agent.dap_probe import Editor

NOTE = "app.pyz is a zip: it runs its own copies"


@pytest.mark.parametrize(("name", "stops"), [("app.pyz", []), ("app", [1])])
@pytest.mark.parametrize("minor", [8, 13])
def test_a_program_in_a_zip_is_said_and_the_folder_that_it_was_made_of_stops(
    launch, under, tmp_path, *, minor, name, stops
):
    source = tmp_path / "app"
    source.mkdir()
    (source / "__main__.py").write_text("print('work')\n")
    zipapp.create_archive(source, tmp_path / "app.pyz")
    options = under(minor)
    running = launch(options["python"], name, wait="300", **options)
    with Editor(running.port, {str(source / "__main__.py"): [1]}) as editor:
        err = running.ends(0, "work\n")
    # What the editor was told last has been read when its sessions are closed.
    assert [stop["line"] for stop in editor.stops] == stops
    assert (editor.said(NOTE), err.count(NOTE)) == ((set(), 0) if stops else ({1}, 1))


@pytest.mark.parametrize("words", [["-"], []])
def test_a_program_from_standard_input_is_said_and_the_file_that_it_imports_stops(
    launch, under, tmp_path, words
):
    (tmp_path / "model.py").write_text("print('work')\n")
    (tmp_path / "text").write_text("import model\n")
    options = under(11)
    with (tmp_path / "text").open() as text:
        running = launch(options["python"], *words, wait="300", stdin=text, **options)
    with Editor(running.port, {str(tmp_path / "model.py"): [1]}) as editor:
        running.ends(0, "work\n")
    assert [stop["line"] for stop in editor.stops] == [1]
    assert editor.said("Python reads the program from standard input")
