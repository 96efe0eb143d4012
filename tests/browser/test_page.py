"""report.html in a real browser: filters, links, light and dark, every width, keyboard and screen reader."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.reports import page
from tests.browser.opened import Opened, opened
from tests.golden.families import FAMILIES
from tests.golden.records import floats, gate, model
from tests.reports.test_page import many

pytestmark = pytest.mark.browser

SHOWN = "[...document.querySelectorAll('#models tbody tr')].filter(row => !row.hidden)"
NAMES = f"{SHOWN}.map(row => row.cells[0].querySelector('code').textContent)"
SECTIONS = "[...document.querySelectorAll('details.model[data-row]')].filter(fold => !fold.hidden).length"
MOST_TIMES = 8
"""How much longer a page of four times as many models may take to open: twice what is fair."""
ACCESSIBLE = ("drawn", "diverged", "labels", "strength", "errors", "merged", "nasty", "empty-shard", "cancelled")


@cache
def text_of(name: str) -> str:
    """The page of a family, or of 2,000 checks."""
    return page.render(many(200, 7) if name == "many" else FAMILIES[name]())


@pytest.mark.parametrize("name", [*FAMILIES, "many"])
def test_nothing_is_asked_for_and_nothing_fails(browser: Any, tmp_path: Path, name: str) -> None:
    """The file itself is the only request; no script and no policy complains."""
    with opened(browser, text_of(name), tmp_path) as tab:
        tab.unfold()
        assert tab.asked == [(tmp_path / "report.html").as_uri()]
        assert tab.errors == []


# ── Filters ─────────────────────────────────────────────────────────────────────────────────────────────


def test_filters_and_search(browser: Any, tmp_path: Path) -> None:
    """Each by itself and together; sections go with their rows, and a live region says how many are left."""
    with opened(browser, text_of("diverged"), tmp_path) as tab:
        assert tab.text_content("#shown") == "5 of 5 models shown"
        tab.select_option("#by-verdict", "passed")
        assert tab.ask(NAMES) == ["iris-logreg"]
        assert tab.ask(SECTIONS) == 1
        assert tab.text_content("#shown") == "1 of 5 models shown"
        assert tab.get_attribute("#shown", "aria-live") == "polite"
        tab.select_option("#by-verdict", "")
        tab.select_option("#by-provider", label="cuda")
        assert tab.ask(NAMES) == ["ranker"]
        tab.select_option("#by-provider", "")
        tab.select_option("#by-framework", label="sklearn")
        assert tab.ask(NAMES) == ["iris-logreg"]
        tab.select_option("#by-framework", "")
        tab.select_option("#by-cause", label="train-mode (1)")
        assert tab.ask(NAMES) == ["tagger"]
        assert tab.ask("location.hash") == "#?cause=train-mode"
        tab.select_option("#by-cause", "")
        tab.fill("#find", "TAGG")
        assert tab.ask(NAMES) == ["tagger"]
        tab.fill("#find", "dropout is on")
        assert tab.ask(NAMES) == ["tagger"]
        tab.select_option("#by-verdict", "passed")
        assert tab.ask(NAMES) == []
        tab.select_option("#by-verdict", "")
        tab.fill("#find", "")
        assert tab.ask(SECTIONS) == 5


def test_a_count_at_the_top_is_a_filter(browser: Any, tmp_path: Path) -> None:
    """By keyboard too; pressed once more, all models are back."""
    with opened(browser, text_of("diverged"), tmp_path) as tab:
        chip = tab.locator(".counts button", has_text="passed")
        chip.focus()
        tab.keyboard.press("Enter")
        assert tab.ask(NAMES) == ["iris-logreg"]
        assert tab.input_value("#by-verdict") == "passed"
        assert chip.get_attribute("aria-pressed") == "true"
        chip.click()
        assert len(tab.ask(NAMES)) == 5
        assert chip.get_attribute("aria-pressed") == "false"


def test_with_a_provider_the_verdict_is_the_one_on_it(browser: Any, tmp_path: Path) -> None:
    """Who asks what diverged on cuda does not want what diverged on the CPU alone."""
    both = (replace(floats("data", "y", 0.5, mismatched=3), provider=name) for name in ("cpu", "cuda"))
    fine = replace(floats("data", "y", 1e-7), provider="cuda")
    result = gate(model("on-both", *both), model("on-cpu", floats("data", "y", 0.5, mismatched=3), fine))
    with opened(browser, page.render(result), tmp_path, anchor="#?verdict=diverged&provider=cuda") as tab:
        assert tab.ask(NAMES) == ["on-both"]
        tab.select_option("#by-verdict", "passed")
        assert tab.ask(NAMES) == ["on-cpu"]
        tab.select_option("#by-provider", label="cpu")
        assert tab.ask(NAMES) == []


def test_columns_are_sorted_by_their_numbers(browser: Any, tmp_path: Path) -> None:
    """By keyboard, the largest first, then the smallest, then the worst as before; a screen reader hears which way."""
    with opened(browser, text_of("diverged"), tmp_path) as tab:
        head = tab.locator("#models th", has_text="largest difference")
        worst_first = tab.ask(NAMES)
        head.locator("button").focus()
        tab.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        down = tab.ask(NAMES)
        tab.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        up = tab.ask(NAMES)
        assert up == down[::-1]
        tab.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") is None
        assert tab.ask(NAMES) == worst_first
        differences = [
            float(key) for key in tab.ask(f"{SHOWN}.flatMap(row => [...row.cells].map(c => c.dataset.k))") if key
        ]
        assert differences
        numbers = [name for name in up if name != "loss"]
        assert numbers == ["iris-logreg", "embedder", "ranker", "tagger"]


def test_without_scripts_everything_is_there(browser: Any, tmp_path: Path) -> None:
    """And no control that would do nothing."""
    with opened(browser, text_of("diverged"), tmp_path, java_script_enabled=False) as tab:
        assert not tab.locator("#filters").is_visible()
        assert tab.locator("#models tbody tr").count() == 5
        tab.click("#models a[href='#model-iris-logreg']")
        assert tab.locator("#model-iris-logreg").is_visible()


# ── The address ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_address_says_what_is_shown(browser: Any, tmp_path: Path) -> None:
    """Whoever opens it elsewhere sees the same; with nothing chosen it is as plain as before."""
    with opened(browser, text_of("diverged"), tmp_path) as tab:
        plain = tab.ask("location.href")
        tab.select_option("#by-provider", label="cpu")
        tab.locator(".counts button", has_text="diverged").click()
        tab.fill("#find", "e & r=1?")
        tab.fill("#find", "e")
        tab.click("#models th:has-text('largest difference') button")
        shared, names = tab.ask("location.href"), tab.ask(NAMES)
        assert shared == f"{plain}#?verdict=diverged&provider=cpu&find=e&sort=-largest+difference"
        assert 1 < len(names) < 5
        tab.click("#clear")
        assert tab.ask("location.href") == plain
        assert len(tab.ask(NAMES)) == 5
        assert tab.ask("history.length") == 2
    with opened(browser, text_of("diverged"), tmp_path, anchor=shared.removeprefix(plain)) as tab:
        assert tab.ask(NAMES) == names
        assert tab.input_value("#find") == "e"
        assert tab.get_attribute("#models th:has-text('largest difference')", "aria-sort") == "descending"
        assert tab.ask("location.href") == shared
        assert tab.errors == []


def test_a_place_and_what_is_shown_go_together(browser: Any, tmp_path: Path) -> None:
    """A link keeps the filter; the way back leads to what was shown."""
    with opened(browser, text_of("diverged"), tmp_path, anchor="#model-tagger?verdict=diverged") as tab:
        wait_for(tab, "model-tagger")
        assert tab.ask("document.querySelector('.here').id") == "model-tagger"
        tab.click("#models a[href='#model-ranker']")
        tab.until("location.hash === '#model-ranker?verdict=diverged'")
        wait_for(tab, "model-ranker")
        assert len(tab.ask(NAMES)) == 4
        tab.select_option("#by-verdict", "passed")
        tab.go_back()
        tab.until("location.hash === '#model-tagger?verdict=diverged'")
        assert tab.input_value("#by-verdict") == "diverged"
        assert tab.errors == []


def test_a_link_to_what_is_filtered_out_shows_it(browser: Any, tmp_path: Path) -> None:
    """Else it would lead nowhere."""
    with opened(browser, text_of("diverged"), tmp_path, anchor="#?verdict=diverged") as tab:
        tab.ask("location.hash = '#model-iris-logreg'")
        wait_for(tab, "model-iris-logreg")
        assert tab.input_value("#by-verdict") == ""
        assert tab.ask("location.hash") == "#model-iris-logreg"


@pytest.mark.parametrize(
    "anchor",
    [
        "#?provider=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&sort=%3Cb%3E",
        "#%",
        "#?%E0%A4%A",
        "#?verdict=__proto__&sort=-&find=%00",
        "#nowhere?framework=toString",
        "#constructor",
        "#??=&&",
    ],
)
def test_an_odd_address_does_no_harm(browser: Any, tmp_path: Path, anchor: str) -> None:
    """What a run doesn't have is named as text, and everything works."""
    with opened(browser, text_of("diverged"), tmp_path, anchor=anchor) as tab:
        assert "of 5 models shown" in tab.text_content("#shown")
        assert tab.ask("document.querySelector('#shown').children.length") == 0
        tab.fill("#find", "tagg")
        assert tab.ask(NAMES) == ["tagger"]
        assert tab.errors == []


def test_what_this_run_does_not_have_is_named(browser: Any, tmp_path: Path) -> None:
    """A link from another run may ask for its provider: all models are shown then, and the page says why."""
    with opened(browser, text_of("diverged"), tmp_path, anchor="#?provider=rocm") as tab:
        assert tab.text_content("#shown") == "5 of 5 models shown; this run has no provider rocm"
        tab.select_option("#by-provider", label="cuda")
        assert tab.text_content("#shown") == "1 of 5 models shown"


# ── Links ───────────────────────────────────────────────────────────────────────────────────────────────


def wait_for(tab: Opened, anchor: str) -> None:
    """Until the beginning of it is in the window; raises where it never is."""
    top = f"document.getElementById('{anchor}').getBoundingClientRect().top"
    tab.until(f"document.getElementById('{anchor}').checkVisibility() && 0 <= {top} && {top} < innerHeight")


def test_a_link_opens_what_it_leads_to(browser: Any, tmp_path: Path) -> None:
    """Also one that comes from outside, and one to a check."""
    with opened(browser, text_of("many"), tmp_path, anchor="#model-model-151") as tab:
        wait_for(tab, "model-model-151")
        check = tab.ask("document.querySelector('#model-model-153 .checks tbody tr').id")
        tab.ask(f"location.hash = '{check}'")
        wait_for(tab, check)


def test_everything_is_reached_by_keyboard(browser: Any, tmp_path: Path) -> None:
    """The first stop skips what is above the table; a fold opens with Enter."""
    with opened(browser, text_of("diverged"), tmp_path) as tab:
        tab.keyboard.press("Tab")
        assert tab.ask("document.activeElement.className") == "skip"
        assert tab.ask("getComputedStyle(document.activeElement).outlineStyle") != "none"
        tab.ask("document.querySelector('#model-iris-logreg').closest('details').querySelector('summary').focus()")
        tab.keyboard.press("Enter")
        assert tab.locator("#model-iris-logreg").is_visible()


# ── How it looks ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("width", [400, 800, 1600])
@pytest.mark.parametrize("name", ["drawn", "diverged", "labels", "nasty", "merged", "strength", "many"])
def test_no_width_scrolls_the_page_sideways(browser: Any, tmp_path: Path, name: str, width: int) -> None:
    """Wide tables scroll by themselves."""
    with opened(browser, text_of(name), tmp_path, viewport={"width": width, "height": 900}) as tab:
        if name != "many":
            tab.unfold()
        assert tab.ask("document.documentElement.scrollWidth") <= width


def test_light_and_dark(browser: Any, tmp_path: Path) -> None:
    """As the system says."""
    seen = {}
    for scheme in ("light", "dark"):
        with opened(browser, text_of("drawn"), tmp_path, color_scheme=scheme) as tab:
            style = "getComputedStyle(document.body)"
            seen[scheme] = tab.ask(f"{style}.backgroundColor"), tab.ask(f"{style}.color")
    assert seen["light"][0] == "rgb(255, 255, 255)"
    assert seen["dark"][0] == "rgb(13, 17, 23)"
    assert seen["light"][1] != seen["dark"][1]


BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(13, 17, 23)"


def test_the_theme_can_be_chosen(browser: Any, tmp_path: Path) -> None:
    """By keyboard; it is kept for the next page, and `system` follows the system again."""
    with opened(browser, text_of("diverged"), tmp_path, color_scheme="light") as tab:
        tab.focus("#theme")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("ArrowDown")
        assert tab.input_value("#theme") == "dark"
        assert tab.ask(BACKGROUND) == DARK
        tab.reload()
        assert tab.input_value("#theme") == "dark"
        assert tab.ask(BACKGROUND) == DARK
        tab.focus("#theme")
        tab.keyboard.press("Home")
        assert tab.ask(BACKGROUND) == LIGHT
        tab.emulate_media(color_scheme="dark")
        assert tab.ask(BACKGROUND) == DARK
        tab.keyboard.press("ArrowDown")
        assert tab.ask(BACKGROUND) == LIGHT
        assert tab.errors == []


@pytest.mark.parametrize("address", ["srcdoc", "blob"])
def test_a_viewer_without_storage_or_address(browser: Any, tmp_path: Path, address: str) -> None:
    """In a sandbox that shows artifacts everything works, and nothing is remembered."""
    with opened(browser, "<!doctype html><title>viewer</title><iframe></iframe>", tmp_path) as tab:
        tab.ask(
            "([text, address]) => { const frame = document.querySelector('iframe');"
            " frame.sandbox = 'allow-scripts';"
            " if (address === 'srcdoc') frame.srcdoc = text;"
            " else frame.src = URL.createObjectURL(new Blob([text], { type: 'text/html' })); }",
            [text_of("diverged"), address],
        )
        frame = tab.frame_locator("iframe")
        frame.locator("#shown").get_by_text("5 of 5 models shown").wait_for(state="attached")
        frame.locator("#theme").select_option("dark")
        frame.locator("#by-verdict").select_option("passed")
        frame.locator("#shown").get_by_text("1 of 5 models shown").wait_for(state="attached")
        shown = tab.frames[1]
        assert shown.evaluate(BACKGROUND) == DARK
        assert shown.evaluate(NAMES) == ["iris-logreg"]
        assert tab.errors == []


CARDS = (
    "[...document.querySelectorAll('#models tbody tr')].map(row => [...row.cells]"
    ".filter(cell => cell.checkVisibility()).map(cell => cell.getBoundingClientRect())"
    ".map(box => [box.left, box.right, box.top]))"
)
LABELS = (
    "[...document.querySelectorAll('#models tbody tr')].map(row => [...row.querySelectorAll('.label')]"
    ".map(each => each.textContent))"
)


@pytest.mark.parametrize("width", [320, 400, 600])
@pytest.mark.parametrize("name", ["diverged", "passed", "nasty", "timed", "skipped-cuda", "strength"])
def test_rows_are_cards_on_a_narrow_screen(browser: Any, tmp_path: Path, name: str, width: int) -> None:
    """All of a row is in sight without scrolling sideways: the cause and the difference before the rest."""
    with opened(browser, text_of(name), tmp_path, viewport={"width": width, "height": 900}) as tab:
        scroller = "document.querySelector('.scroll:has(> #models)')"
        assert tab.ask(f"{scroller}.scrollWidth <= {scroller}.clientWidth")
        for card in tab.ask(CARDS):
            assert all(left >= 0 and right <= width for left, right, _ in card)
            tops = [top for *_, top in card]
            assert tops == sorted(tops)
        cards = tab.ask(LABELS)
        assert any("largest difference" in card for card in cards)
        for card in cards:
            # A card leaves out what it has nothing to say of.
            assert "largest difference" not in card[1:]
            assert card[-2:] == ["framework", "time"]
        assert tab.locator("#models .label").first.is_visible()
        tab.click("#models th:has-text('time') button")
        assert tab.get_attribute("#models th:has-text('time')", "aria-sort") == "descending"


def test_a_wide_screen_shows_no_labels(browser: Any, tmp_path: Path) -> None:
    """The words over the columns are enough."""
    with opened(browser, text_of("diverged"), tmp_path) as tab:
        assert not tab.locator("#models .label").first.is_visible()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (400, "dark")])
@pytest.mark.parametrize("name", ACCESSIBLE)
def test_an_accessibility_checker_finds_nothing(
    browser: Any, tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    """Contrast, names, headers, landmarks and order of headings, with everything unfolded."""
    from axe_playwright_python.sync_playwright import Axe

    viewport = {"width": width, "height": 900}
    with opened(browser, text_of(name), tmp_path, color_scheme=scheme, viewport=viewport) as tab:
        tab.unfold()
        found = Axe().run(tab.tab)
        assert found.violations_count == 0, found.generate_report()


def test_four_times_the_models_take_about_four_times_as_long(browser: Any, tmp_path: Path) -> None:
    """In one run, since a busy machine makes any time longer; a filter takes less than to open the page."""
    opening, filtering = zip(*(_times(browser, tmp_path, count) for count in (50, 200)), strict=True)
    assert opening[1] < MOST_TIMES * opening[0]
    assert filtering[1] < opening[1]


def _times(browser: Any, folder: Path, count: int) -> tuple[float, float]:
    """CPU seconds of the page's thread: to open it, and to filter it by name."""
    context = browser.new_context()
    tab = Opened(context.new_page())
    session = context.new_cdp_session(tab.tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    (folder / "report.html").write_bytes(page.render(many(count, 7)).encode("utf-8"))
    tab.goto((folder / "report.html").as_uri())
    tab.until(f"document.getElementById('shown').textContent.startsWith('{count} of {count}')")
    opened = _busy(session)
    tab.fill("#find", "model-15")
    assert tab.text_content("#shown") == f"{11 if count == 200 else 1} of {count} models shown"
    filtered = _busy(session) - opened
    context.close()
    return opened, filtered


def _busy(session: Any) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))
