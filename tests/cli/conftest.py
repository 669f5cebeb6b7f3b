"""Fixtures for the command line."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from templatefix.findings.outcome import Report
from tests.cli.stub import Program, Stub, stubbed


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    """A program for targets that come to the given reports."""

    def make(outcomes: Mapping[str, Report]) -> Program:
        return stubbed(monkeypatch, outcomes)

    return make
