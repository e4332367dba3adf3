"""The postmortem of a run: incidents and root causes as text, report.html and report.md."""

from __future__ import annotations

from .postmortem import first_screen, headline, write_report

__all__ = ["first_screen", "headline", "write_report"]
