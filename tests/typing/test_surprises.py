"""Whatever the plugin does not foresee, mypy goes on; with --show-traceback it says so."""

from types import SimpleNamespace
from typing import Any

import pytest

from treaty.generator import mypy_plugin
from treaty.generator._mypy_numpy import NumpyCalls


def context(show_traceback: bool) -> Any:
    """A context with nothing in it that the plugin looks for."""
    options = SimpleNamespace(shadow_file=None, show_traceback=show_traceback)
    api = SimpleNamespace(modules={}, options=options)
    return SimpleNamespace(api=api, cls=SimpleNamespace(info=None), default_return_type="what mypy found")


def test_a_declaration_that_cannot_be_read_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mypy_plugin, "_as_attrs", lambda ctx: True)
    assert mypy_plugin._declared(context(show_traceback=False)) is True
    with pytest.raises(AttributeError):
        mypy_plugin._declared(context(show_traceback=True))


def test_a_numpy_call_that_cannot_be_read_keeps_its_type() -> None:
    hook: Any = NumpyCalls(lambda name: None).hook("numpy.zeros")
    assert hook(context(show_traceback=False)) == "what mypy found"
    with pytest.raises(TypeError):
        hook(context(show_traceback=True))


def test_an_unfinished_base_class_asks_for_another_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mypy_plugin, "_as_attrs", lambda ctx: False)
    assert mypy_plugin._declared(context(show_traceback=True)) is False
