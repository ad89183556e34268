"""Finding an app by the text that names it: ``module:variable``, or ``path/to/file.py:variable``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from tocsin.handlers.registry import HandlerApp

REMEDY: Final = "give module:variable, such as reminders.app:app, or path/to/file.py:variable"
FILE_MODULE: Final = "__tocsin_app__"
"""Name under which a file is loaded: not ``__main__``, so what it does only as a program is not done."""


class NoApp(Exception):
    """A text names no app. It says what stands in the way, and what to do."""


class _Loading:
    """Whether this process is loading an app: then the app's own ``run`` does nothing."""

    active = False


def is_loading() -> bool:
    return _Loading.active


def load_app(ref: str) -> HandlerApp:
    """Import an app.

    Raises:
        NoApp: there is none under this name.
    """
    where, _, variable = ref.rpartition(":")
    if not where or not variable:
        raise NoApp(f"{ref!r} names no app: {REMEDY}")
    _Loading.active = True
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except ImportError as error:
        raise NoApp(f"{where!r} cannot be imported ({error}): {REMEDY}") from error
    finally:
        _Loading.active = False
    app: object = module
    for part in variable.split("."):
        app = getattr(app, part, None)
    if not isinstance(app, HandlerApp):
        raise NoApp(f"{ref!r} is no tocsin.Worker (it is a {type(app).__name__}): {REMEDY}")
    return app


def ref_of(app: HandlerApp) -> str:
    """Return the text by which another process finds an app: it must be a variable of a module.

    Raises:
        NoApp: it is none.
    """
    main = sys.modules.get("__main__")
    others = [module for name, module in list(sys.modules.items()) if name != "__main__"]
    for module in [*others, main]:
        for variable, value in list(getattr(module, "__dict__", {}).items()):
            if value is app and module is not None:
                return f"{_place_of(module)}:{variable}"
    raise NoApp(
        "the app is no variable of a module, so other processes cannot find it: assign it at the top of a file, such "
        "as `app = tocsin.Worker(pool=…)`"
    )


def _place_of(module: ModuleType) -> str:
    if module.__name__ != "__main__":
        return module.__name__
    if module.__spec__ is not None and module.__spec__.name:  # python -m package.module
        return module.__spec__.name
    if getattr(module, "__file__", None) is None:
        raise NoApp("the app was made in a session without a file: put it into one")
    return str(Path(str(module.__file__)).resolve())


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(FILE_MODULE, path.resolve())
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[FILE_MODULE] = module
    spec.loader.exec_module(module)
    return module
