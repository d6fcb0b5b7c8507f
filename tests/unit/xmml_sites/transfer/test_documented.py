"""docs/copying-files.md says what the command does."""

from __future__ import annotations

import argparse
import dataclasses
import re

import pytest
from printed import DOCS
from xmml_run.commands import cp
from xmml_sites.transfer.file_location import FileLocation, read_location
from xmml_sites.transfer.progress import Report
from xmml_sites.transfer.settings import TransferMethod

PAGE = (DOCS / "copying-files.md").read_text(encoding="utf-8")


def test_the_page_has_every_key_of_the_report_and_every_way() -> None:
    rows = "".join(re.findall(r"^\| (`.*?) \|", PAGE.split("`--json`")[1], re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", rows)) == {field.name for field in dataclasses.fields(Report)}
    assert {way for way in TransferMethod if f"| `{way}` |" not in PAGE or f"`{way.words}`" not in PAGE} == set()


def test_the_page_has_the_statuses_that_the_help_has() -> None:
    of_help = re.findall(r"\b(\d+) \w", cp._EPILOG.split("exit status:")[1])
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == of_help


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("./a:b", FileLocation(None, "./a:b")),
        ("[fe80::1]:PATH", FileLocation("fe80::1", "PATH")),
        ("USER@[fe80::1]:PATH", FileLocation("USER@fe80::1", "PATH")),
        ("HOST:", FileLocation("HOST", ".")),
    ],
)
def test_a_place_of_the_page_is_understood_so(written: str, meant: FileLocation) -> None:
    assert f"`{written}`" in PAGE
    assert read_location(written) == meant


def test_a_copy_between_two_hosts_is_refused_with_the_command_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert "`ssh ONE xmml cp PATH OTHER:PATH`" in PAGE
    parser = argparse.ArgumentParser()
    cp.add_options(parser)
    assert cp.run(parser.parse_args(["one:a", "other:b"])) == 2
    assert "ssh one xmml cp ... other:b" in capsys.readouterr().err
