"""The page of `dkdbg where --html`, in a real browser, without a server."""

from playwright.sync_api import expect

from tests.editor import hang_page


def opened(browser, path, content):
    """The page, and what the browser complained about or asked the network for."""
    path.write_text(content)
    shown = browser.new_page()
    troubles: list[str] = []
    shown.on("console", lambda said: troubles.append(said.text))
    shown.on("pageerror", lambda error: troubles.append(str(error)))
    shown.on("request", lambda asked: troubles.append(asked.url) if asked.url != path.as_uri() else None)
    shown.goto(path.as_uri())
    return shown, troubles


def test_the_grid_shows_the_odd_rank_and_a_click_its_stack(browser, tmp_path):
    shown, troubles = opened(browser, tmp_path / "hang.html", hang_page.of_eight())
    cells = shown.locator(".grid button")
    assert cells.all_inner_texts() == [str(rank) for rank in range(8)]
    colours = [each.evaluate("each => getComputedStyle(each).backgroundColor") for each in cells.all()]
    crowd = {colours[rank] for rank in (0, 1, 3, 4, 5, 7)}
    assert len(crowd) == 1
    assert colours[2] not in crowd
    expect(shown.locator(".absent")).to_have_text("6")
    expect(shown.locator(".finding").first).to_have_text("rank 6 is missing: ended, or never started")
    expect(shown.locator(".finding").nth(1)).to_have_text(
        "rank 2 has not reached all_reduce #118 of all ranks: ranks 0, 1, 3-5, 7 arrived 12 s ago"
    )
    waiting = shown.locator(".group", has_text="all_reduce, from step")
    expect(waiting.locator(".stack")).to_be_hidden()
    cells.nth(5).click()
    expect(waiting.locator(".stack")).to_be_visible()
    expect(waiting.locator("tr.own").first).to_contain_text("/workspace/train.py:41")
    shown.reload()
    expect(shown.locator(".chosen")).to_have_text("5")
    assert troubles == []


def test_a_hostile_process_is_text_on_the_page_and_nothing_else(browser, tmp_path):
    shown, troubles = opened(browser, tmp_path / "hang.html", hang_page.of_eight(evil=hang_page.EVIL))
    for each in shown.locator(".group > button").all():
        each.click()
    expect(shown.locator("h1")).to_contain_text(hang_page.EVIL)
    assert shown.title() == "dkdbg where"
    assert shown.locator("img").count() == 0
    assert shown.locator("script").count() == 2
    assert troubles == []


def test_markup_that_got_in_all_the_same_would_not_run(browser, tmp_path):
    content = hang_page.of_eight().replace('<div id="page">', f'<div id="page">{hang_page.EVIL}')
    assert content.count("onerror") == 1
    shown, _ = opened(browser, tmp_path / "hang.html", content)
    expect(shown.locator(".grid button").first).to_be_visible()
    assert shown.title() == "dkdbg where"
