"""The studio in a real Chromium: what people do in it, and axe-core finds nothing on any page."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from sudare_web.studio.runs import Runs
from tasks.storage.workspace.settings import Workspace
from tests.extensions.sudare_web.site.test_browser import LEAST_CONTRAST, LOOKS, UNNAMED
from tests.extensions.sudare_web.studio.conftest import Open, opened
from tests.extensions.sudare_web.studio.test_processes import ended
from tests.worlds.accessibility import findings
from tests.worlds.browsers import DESK, LONG, OTHER, PHONE

pytestmark = pytest.mark.timeout(900)


SCRIPT = "<script>alert('x')</script><img src=x onerror=alert(2)>"


@pytest.fixture
def context(browser: Browser, request: pytest.FixtureRequest) -> Iterator[tuple[BrowserContext, list[str]]]:
    """A browser of a size and a colour scheme, and all that its pages complain about."""
    (width, height), scheme = getattr(request, "param", (DESK, "light"))
    made, complaints = (
        browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme),
        list[str](),
    )
    made.set_default_timeout(LONG)
    made.on("console", lambda message: complaints.append(message.text))
    made.on("weberror", lambda error: complaints.append(str(error.error)))
    made.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith("http://127.0.0.1:") or asked.url == "data:,"
            else complaints.append(asked.url)
        ),
    )
    yield made, complaints
    made.close()


def entered(context: BrowserContext, made: Open, path: str = "") -> Page:
    page = context.new_page()
    page.goto(made.entrance)
    page.wait_for_url("**/studio")
    if path:
        page.goto(made.root + path)
    return page


def looked(page: Page, times: int) -> None:
    """Wait until the page has been answered so many times."""
    expect(page.locator(f"body[data-looked='{times}']")).to_have_count(1, timeout=LONG)


def choose(page: Page, label: str, value: str) -> None:
    """Choose on the form, and wait until the form shows it."""
    form = page.locator("#form")
    control = form.get_by_role("combobox", name=label, exact=True)
    for role in ("textbox", "spinbutton"):
        control = control.or_(form.get_by_role(role, name=label, exact=True))  # type: ignore[arg-type]
    before = int(page.locator("body").get_attribute("data-looked") or 0)
    if control.evaluate("each => each.tagName") == "SELECT":
        control.select_option(value)
    else:
        control.fill(value)
        control.press("Tab")
    looked(page, before + 1)


def test_from_an_empty_folder_to_a_verified_version(context: tuple[BrowserContext, list[str]], tmp_path: Path):
    """By choosing alone: workspace, draft, columns, tables, account, run, record, verification. No line is typed.

    The page is closed in mid-run; the run goes on, and the page that is opened then finds it.
    """
    browser, complaints = context
    rows, chance = ["age,sex,name"], random.Random(1)
    rows += [f"{chance.randrange(100)},{chance.choice('FM')},Somebody {i}" for i in range(2000)]
    (tmp_path / "visits.csv").write_text("\n".join(rows) + "\n")
    with opened(tmp_path, None) as made:
        page = entered(browser, made)
        page.get_by_role("button", name="Make a workspace").click()
        page.get_by_text(f"Ledger, keys and releases are in {tmp_path}/work.").wait_for()
        page.get_by_label("Name of the release").fill("clinic-visits")
        page.get_by_role("button", name="Draft").click()
        page.wait_for_url("**/studio?spec=clinic-visits.yaml")
        for label, value in (
            ("One person is", "row"),
            ("Bounded over", "block"),
            ("Neighbours", "add_remove"),
            ("Missing values", "category"),
            ("Values and bounds come from", "declared"),
            ("What age holds", "whole"),
            ("What sex holds", "values"),
            ("Values of sex, a line each", "F\nM"),
        ):
            choose(page, label, value)
        new = page.get_by_role("group", name="A new table by")
        new.get_by_label("age").check()
        new.get_by_label("sex").check()
        page.get_by_role("button", name="Add table").click()
        page.get_by_label("People", exact=True).fill("patients")
        page.get_by_label("Days", exact=True).fill("2025")
        page.get_by_role("button", name="Open the account").click()
        page.locator("#account svg").wait_for()
        assert "±" in page.locator("#within-0").inner_text()
        page.on("dialog", lambda asked: asked.accept())
        page.get_by_role("button", name="Save and run").click()
        page.locator("#ran .waiting").wait_for()
        assert re.search(r"About [0-9]+ s left|longer than the [0-9]+ s", page.locator("#time-left").inner_text())
        page.close()
        page = browser.new_page()
        page.goto(f"{made.root}/studio?spec=clinic-visits.yaml")
        page.locator("#ran .chip.holds").wait_for()
        assert page.locator("#ran .steps li").count() > 5
        page.get_by_role("link", name="Open the record").click()
        page.frame_locator("iframe").locator("h1").wait_for()
        page.go_back()
        page.get_by_role("link", name="Verify").click()
        expect(page.get_by_role("status")).to_contain_text("holds", timeout=LONG)
        page.get_by_role("link", name="Studio").click()
        page.wait_for_url("**/studio")
    assert complaints == []
    assert (tmp_path / "work/releases/clinic-visits/v1/record.json").is_file()


def test_form_and_yaml_are_in_step_both_ways(
    context: tuple[BrowserContext, list[str]], place_of_studio: tuple[Path, Workspace]
):
    """What is typed comes to the form, what is slid comes to the YAML; an error stands beside its line."""
    browser, complaints = context
    with opened(*place_of_studio) as made:
        page = entered(browser, made, "/studio?spec=tables.yaml")
        spec, epsilon = page.get_by_label("Spec", exact=True), page.locator("#f-epsilon")
        text = spec.input_value()
        spec.fill(text.replace("epsilon: 1.0", "epsilon: 0.25"))
        expect(epsilon).to_have_value("0.25", timeout=LONG)
        slider = page.get_by_label("ε, from more private to less")
        slider.focus()
        within = page.locator("#within-0").inner_text()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#within-0")).not_to_have_text(within, timeout=LONG)
        assert "epsilon: 0.28" in spec.input_value()
        assert slider.evaluate("each => each === document.activeElement")
        spec.fill(text.replace("mechanism: laplace", f"mechanism: {SCRIPT!r}"))
        beside = page.locator("#spec-findings")
        expect(beside).to_contain_text("product.mechanism", timeout=LONG)
        assert "alert(" in beside.inner_text()
        beside.get_by_role("button", name="line 8").click()
        assert spec.evaluate("each => each.value.slice(each.selectionStart, each.selectionEnd)").startswith(
            "  mechanism"
        )
        assert page.locator("#spec-gutter b").inner_text() == "8"
        assert page.evaluate(UNNAMED) == []
    assert complaints == []


def test_a_part_of_the_form_is_drawn_when_it_is_opened(
    context: tuple[BrowserContext, list[str]], place_of_studio: tuple[Path, Workspace]
):
    """Columns and share of a table; the texts stay as they are."""
    browser, complaints = context
    with opened(*place_of_studio) as made:
        page = entered(browser, made, "/studio?spec=tables.yaml")
        texts = [page.get_by_label(name, exact=True).input_value() for name in ("Spec", "Contract")]
        assert "right at most 74 times out of 100" in page.locator("#right").inner_text()
        assert page.locator("#table-1 input").count() == 0
        page.locator("#table-1 summary").click()
        page.get_by_text("No side is more private").wait_for()
        assert [page.get_by_label(name, exact=True).input_value() for name in ("Spec", "Contract")] == texts
    assert complaints == []


def test_texts_that_mean_missing_are_chosen(context: tuple[BrowserContext, list[str]], tmp_path: Path):
    """A line each on the contract's form; they come to the YAML as texts, and go again."""
    browser, complaints = context
    contract = "id: x\nversion: 1.0.0\nunit: {kind: row, scope: block}\nadjacency: add_remove\n"
    contract += "defaults: {nulls: category, provenance: declared}\ncolumns: {age: 0..99 by 10, sex: [F, M]}\n"
    (tmp_path / "x.contract.yaml").write_text(contract)
    spec = (
        "release: x\ncontract: x.contract.yaml\nsource: {path: x.csv}\ncharge: {account: x, epsilon: 1, delta: 0}\n"
    )
    spec += "product: {kind: tables, mechanism: laplace, tables: [[age]]}\npublish: {to: releases/, formats: [csv]}\n"
    (tmp_path / "x.yaml").write_text(spec)
    with opened(tmp_path, None) as made:
        page = entered(browser, made, "/studio?spec=x.yaml")
        text = page.get_by_label("Contract", exact=True)
        choose(page, "Texts that mean missing, a line each", "?\n999\nN, A")
        assert 'missing: ["?", 999, "N, A"]' in text.input_value()
        assert page.locator("#contract-findings li").count() == 0
        assert page.locator("#f-missing").input_value() == "?\n999\nN, A"
        choose(page, "Texts that mean missing, a line each", "")
        assert text.input_value() == contract
    assert complaints == []


def test_statistics_and_synthetic_rows_are_chosen_and_planned(
    context: tuple[BrowserContext, list[str]], place_of_studio: tuple[Path, Workspace]
):
    """The columns stay when the kind changes; a clip, quartiles and a generator come to the YAML, and are planned."""
    browser, complaints = context
    folder, workspace = place_of_studio
    with opened(folder, workspace) as made:
        page = entered(browser, made, "/studio?spec=tables.yaml")
        spec = page.get_by_label("Spec", exact=True)
        choose(page, "What is published", "statistics")
        assert "kind: statistics" in spec.input_value()
        page.locator("#what-0").select_option("mean")
        page.locator("#of-0").select_option("hours-per-week")
        page.locator("#add-0").click()
        expect(page.locator("#width-0-1")).to_contain_text("with 1,000 rows", timeout=LONG)
        page.locator("#low-0-1").fill("1")
        page.locator("#low-0-1").press("Tab")
        page.locator("#high-0-1").fill("60")
        page.locator("#high-0-1").press("Tab")
        expect(spec).to_have_value(re.compile(r"clip: \[1, 60\]"), timeout=LONG)
        page.locator("#what-0").select_option("quantiles")
        page.locator("#add-0").click()
        expect(page.locator("#width-0-2")).to_contain_text("q50_age", timeout=LONG)
        choose(page, "What is published", "synthetic")
        choose(page, "Generator", "aim")
        page.get_by_role("group", name="A row has").get_by_label("race", exact=True).check()
        expect(page.locator("#outlook")).to_contain_text("the noise alone adds up to about", timeout=LONG)
        assert "generator: aim" in spec.input_value()
        expect(spec).to_have_value(re.compile(r"columns: \[.*race.*\]"), timeout=LONG)
        assert page.evaluate(UNNAMED) == []
    assert complaints == []


def test_markup_in_names_stays_text(
    context: tuple[BrowserContext, list[str]], place_of_studio: tuple[Path, Workspace]
):
    """Columns, labels, tables, accounts and a file's name that are markup: shown as they are, and nothing runs."""
    browser, complaints = context
    folder, workspace = place_of_studio
    contract = f'id: x\nversion: 1.0.0\ncolumns:\n  "{SCRIPT}": {{1: "{SCRIPT}", 2: b}}\nleft_out: ["{SCRIPT}"]\n'
    (folder / "x.contract.yaml").write_text(contract)
    spec = (folder / "tables.yaml").read_text().replace("adult.odcs.yaml", "x.contract.yaml")
    spec = spec.replace("[age]", f'["{SCRIPT}"]').replace("account: adult-1994", f'account: "{SCRIPT}"')
    (folder / "<img src=x onerror=alert(3)>.yaml").write_text(spec)
    with opened(folder, workspace) as made:
        page = entered(browser, made)
        page.get_by_role("link", name="onerror").click()
        page.locator("#form fieldset").first.wait_for()
        choose(page, "Noise", "auto")
        assert page.locator("#form img, #form script, main img").count() == 0
        assert SCRIPT in page.locator("#form").inner_text()
        assert page.evaluate(UNNAMED) == []
    assert complaints == []


def test_the_second_of_two_tabs_is_told_that_the_file_changed(
    context: tuple[BrowserContext, list[str]], place_of_studio: tuple[Path, Workspace]
):
    """Its text is still there; it sees the other's, and decides."""
    browser, _ = context
    folder, workspace = place_of_studio
    with opened(folder, workspace) as made:
        first = entered(browser, made, "/studio?spec=tables.yaml")
        second = browser.new_page()
        second.goto(f"{made.root}/studio?spec=tables.yaml")
        for page, epsilon in ((first, "0.5"), (second, "0.25")):
            choose(page, "ε", epsilon)
            page.get_by_role("button", name="Save", exact=True).click()
            page.get_by_role("alert").get_by_text("changed meanwhile").wait_for() if page is second else expect(
                page.get_by_role("status")
            ).to_have_text("Saved.", timeout=LONG)
        assert "epsilon: 0.5" in (folder / "tables.yaml").read_text()
        assert "epsilon: 0.25" in second.get_by_label("Spec", exact=True).input_value()
        assert "epsilon: 0.5" in (second.locator("#spec-theirs pre").text_content() or "")
        second.get_by_role("button", name="Write mine over it").click()
        expect(second.get_by_role("status")).to_have_text("Saved.", timeout=LONG)
        assert "epsilon: 0.25" in (folder / "tables.yaml").read_text()


@pytest.mark.parametrize(("context", "first", "language"), LOOKS, indirect=["context"])
def test_every_page_is_whole_readable_and_named(
    context: tuple[BrowserContext, list[str]], first: int, language: str, place_of_studio: tuple[Path, Workspace]
):
    """No complaint, no sideways scrolling, contrast AA, names for everything; in both languages, wrong texts too."""
    browser, complaints = context
    folder, workspace = place_of_studio
    (folder / "wrong.yaml").write_text((folder / "tables.yaml").read_text().replace("adult-1994", "nobody"))
    with opened(folder, workspace) as made:
        page = entered(browser, made)
        paths = ("/studio", "/studio?spec=tables.yaml", "/studio?spec=wrong.yaml", "/studio?spec=model.yaml")
        for path in paths[first::2]:
            page.goto(f"{made.root}{path}{'&' if '?' in path else '?'}lang={language}")
            assert page.locator("html").get_attribute("lang") == language
            for each in page.locator("details").all():
                each.evaluate("each => each.open = true")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            ratio, text = page.evaluate(LEAST_CONTRAST)
            assert ratio >= 4.5, (path, text)
            assert page.evaluate(UNNAMED) == [], path
        english = re.search(r"\b(Save|Drop|Account|Tables)\b", page.locator("main").inner_text())
        assert (english is None) is (language != "en")
    assert complaints == []


def test_a_browser_that_is_not_let_in_is_told_why(
    context: tuple[BrowserContext, list[str]], place_of_studio: tuple[Path, Workspace]
):
    """The address is used by one browser; another one that opens it is refused in words that it can read."""
    browser, _ = context
    with opened(*place_of_studio) as made:
        entered(browser, made).close()
        browser.clear_cookies()
        page = browser.new_page()
        answer = page.goto(made.entrance)
        assert answer is not None
        assert answer.status == 403
        assert page.locator("h1").inner_text() == "This address was used already"
        assert page.evaluate(LEAST_CONTRAST)[0] >= 4.5


@pytest.mark.services
def test_a_studio_that_is_started_again_finds_the_run(place_of_studio: tuple[Path, Workspace]):
    """A run is a process of its own: another object, as another studio has it, sees it run and end."""
    folder, workspace = place_of_studio
    first, later = Runs(workspace, folder), Runs(workspace, folder)
    assert later.state() is None
    first.start(folder / "nothing.yaml", ())
    assert later.state() is not None
    state = ended(later)
    assert state is not None
    assert state.findings[0]["found"] == "no such file"
    assert state.version is None
    assert [oct(each.stat().st_mode & 0o77) for each in (workspace.private / "studio").iterdir()] == ["0o0"] * 4


PAGES = (
    "/studio",
    "/studio?spec=tables.yaml",
    "/studio?spec=wrong.yaml",
    "/studio?spec=model.yaml",
    "/studio?spec=statistics.yaml",
    "/studio?spec=synthetic.yaml",
    "/enter?token=used",
)


def found_on(page: Page, made: Open, language: str) -> list[tuple[str, str, str, str]]:
    found = []
    page.goto(made.entrance)
    page.wait_for_url("**/studio")
    for path in PAGES:
        base = made.url if path.startswith("/enter") else made.root
        page.goto(f"{base}{path}{'&' if '?' in path else '?'}lang={language}")
        page.evaluate("document.querySelectorAll('#form details').forEach((each) => (each.open = true))")
        parts = page.locator("#form details[data-table]")
        expect(parts.locator(".pair")).to_have_count(parts.count(), timeout=LONG)
        found += [(path, *finding) for finding in findings(page)]
    return found


@pytest.mark.parametrize(("size", "scheme", "language"), [(PHONE, "light", "en"), (DESK, "dark", OTHER)])
def test_no_page_of_the_studio_has_findings(
    browser: Browser,
    place_of_studio: tuple[Path, Workspace],
    size: tuple[int, int],
    scheme: Literal["light", "dark"],
    language: str,
):
    """The beginning, each product with all its parts open, a text with mistakes, and an address that was used."""
    folder, workspace = place_of_studio
    (folder / "wrong.yaml").write_text((folder / "tables.yaml").read_text().replace("laplace", "lapace"))
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    context.set_default_timeout(LONG)
    with opened(folder, workspace) as made:
        assert found_on(context.new_page(), made, language) == []
    context.close()
