"""The options with which a run is judged: of `logjudge check` and of `logjudge.check`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..histories.bundle import Run
from ..histories.errors import UsageError, unknown_name
from ..histories.readers import CHECKED, readers_of
from ..histories.settings import config_of
from .rules import check_applicable, select_rules
from .transactions.consistency_models import STRONGEST, check_model
from .transactions.rw_register import check_assumptions

_LISTS = ("allow", "only", "skip", "keys")


@dataclass(frozen=True)
class Request:
    """The options, as docs/python.md names them."""

    allow: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    strict: bool = False
    ww_deps: bool = False
    model: str = STRONGEST
    reader: str | None = None
    name: str | None = None
    config: Mapping[str, Any] | None = None  # the content of run.json for a run without one

    @classmethod
    def of(cls, **options: Any) -> Request:
        """The request; a list may be one name. Raises UsageError for an unknown option, rule, model, assumption or
        reader.
        """
        if unknown := options.keys() - {field.name for field in fields(cls)}:
            raise unknown_name("argument", min(unknown), [field.name for field in fields(cls)])
        lists = {name: options[name] for name in _LISTS if name in options}
        tuples = {name: (found,) if isinstance(found, str) else tuple(found) for name, found in lists.items()}
        request = cls(**{**options, **tuples})
        select_rules(request.only, request.skip, request.allow)
        check_model(request.model)
        check_assumptions(request.keys)
        if request.reader is not None and request.reader not in (known := readers_of(*CHECKED)):
            raise UsageError(f"found reader={request.reader!r}, expected one of {', '.join(known)}")
        return request

    def of_run(self, run: Run) -> Run:
        """The run, to be judged as requested. Raises UsageError for `config` if it has a run.json."""
        if self.config is not None:
            if run.settings.has_run_json:
                raise UsageError(f"found config with {run.path}, which has a run.json, expected one of them")
            config = config_of(json.dumps(self.config).encode(), "config")
            name = str(config.get("name") or run.settings.name)
            run = run.with_settings(config={**run.settings.config, **config}, name=name)
        rules = select_rules(self.only, self.skip, self.allow)
        check_applicable(rules, run.settings.dialect, self.model, self.keys)
        chosen = {option: getattr(self, option) for option in ("allow", "strict", "ww_deps", "model", "keys")}
        return run.with_settings(rules=rules, name=self.name or run.settings.name, **chosen)
