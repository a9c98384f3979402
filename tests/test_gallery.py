"""The gallery of the manual: its page is made from the list, the list from shipped examples, each with a picture."""

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from benchmarks.gallery import MOST_SECONDS
from contracts.release.federation_spec import load_federation, load_site
from contracts.release.spec import load_spec
from deploy.gallery import ACCOUNTS, EXHIBITS, PAGE, PICTURES, ROOT, TIMES, Exhibit, main, page

RUNS = [each for each in EXHIBITS if each.script is None]
FEDERATIONS = [each for each in EXHIBITS if each.script is not None]
MOST_BYTES = 150_000
"""Of one picture, so that the manual stays small."""


def test_the_page_is_made_from_the_list():
    """Seven releases, of every kind of product and of a federation; ε and δ on the page are those of the specs."""
    assert PAGE.read_text(encoding="utf-8") == page()
    assert len(EXHIBITS) == 7
    kinds = [load_spec(ROOT / each.spec).product.kind for each in RUNS]
    assert set(kinds) == {"tables", "statistics", "synthetic", "classifier"}


@pytest.mark.parametrize("exhibit", RUNS, ids=lambda each: each.name)
def test_an_exhibit_is_a_shipped_example_that_its_account_is_opened_for(exhibit: Exhibit):
    """Its spec and contract load, and its rows are the account's source, as far as the calculus takes its noise."""
    spec = load_spec(ROOT / exhibit.spec)
    [account] = [each for each in ACCOUNTS if each.name == spec.charge.account]
    assert spec.source.path == ROOT / account.source
    assert spec.source.path.exists()
    assert spec.contract.is_file()
    assert spec.charge.delta <= (0 if account.calculus == "pure" else 10**12)


@pytest.mark.parametrize("exhibit", FEDERATIONS, ids=lambda each: each.name)
def test_a_federation_of_the_gallery_loads_with_the_files_of_its_sites(exhibit: Exhibit):
    """Each site's file names the federation; its rows are there; the script starts every site and has its rights."""
    federation = load_federation(ROOT / exhibit.spec)
    assert exhibit.script is not None
    script = ROOT / exhibit.script
    started = script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
    assert f'names="{" ".join(site.name for site in federation.sites)}"' in started
    for site in federation.sites:
        file, of = load_site(script.parent / f"{site.name}.yaml")
        assert of.digest == federation.digest
        assert isinstance(file.source.path, Path)
        assert file.source.path.exists()
        assert file.contract == federation.contract


def test_each_exhibit_has_its_time():
    """In the order of the list, with the load beside it; the target is two minutes each."""
    rows = json.loads(TIMES.read_text(encoding="utf-8"))
    assert [row["what"].partition(":")[0] for row in rows] == [each.name for each in EXHIBITS]
    assert {row["target"] for row in rows} == {MOST_SECONDS}
    assert all(row["holds"] == (row["measured"] <= MOST_SECONDS) for row in rows)
    assert all(row["settings"]["load_average"] >= 0 for row in rows)


def test_the_folder_has_a_picture_of_each_and_no_more():
    """As large as the command takes them, and not too heavy."""
    assert sorted(PICTURES.iterdir()) == sorted(each.picture for each in EXHIBITS)
    for exhibit in EXHIBITS:
        content = exhibit.picture.read_bytes()
        assert struct.unpack(">II", content[16:24]) == (800, 640)
        assert len(content) < MOST_BYTES


@pytest.mark.services
def test_without_a_browser_nothing_is_installed_or_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`make gallery` ends in one line, and so does the program that it would start."""
    made = subprocess.run(
        ["sh", ROOT / "deploy" / "bare_path.sh", tmp_path / "bin"], capture_output=True, text=True, check=True
    )
    monkeypatch.setenv("PATH", made.stdout.strip())
    done = subprocess.run(
        ["make", "--no-print-directory", f"VENV={tmp_path}/new", "gallery"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [tmp_path / "bin"])
    assert done.stdout.startswith("make gallery: no browser on this machine; it needs Chromium: apt-get install")
    with pytest.raises(SystemExit, match=r"no browser here .*: apt-get install"):
        main(tmp_path / "gallery")
    assert not (tmp_path / "gallery").exists()
