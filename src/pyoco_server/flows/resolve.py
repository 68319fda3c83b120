"""Load a flow resolver by `module:function` or `path/to/file.py:function`. Owns the import.

Every error is a `ResolverError` whose text says what to change.
"""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from pyoco.core.models import Flow

FlowResolver = Callable[[str], Flow]


class ResolverError(Exception):
    """The resolver cannot be loaded; the message says what to change."""


def load_resolver(spec: str) -> FlowResolver:
    """Import the module or file and return the function that turns a flow's name into a `Flow`."""
    place, colon, attribute = spec.strip().rpartition(":")
    if not colon or not place or not attribute:
        raise ResolverError(
            f"'{spec}' names no function: write module:function or path/to/file.py:function, "
            "as in my_flows:resolve"
        )
    module = _load_file(Path(place)) if _is_file(place) else _load_module(place)
    return _function(module, place, attribute)


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ResolverError(f"There is no file {path.absolute()}; check the path before the colon")
    path = path.resolve()
    _make_importable(path.parent)
    name = _module_name(path)
    source = importlib.util.spec_from_file_location(name, path)
    if source is None or source.loader is None:
        raise ResolverError(f"{path} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(source)
    sys.modules[name] = module  # before it is executed, as import does: dataclasses and pickle use it
    try:
        with _errors_of(str(path)):
            source.loader.exec_module(module)
    except ResolverError:
        del sys.modules[name]
        raise
    return module


def _load_module(name: str) -> ModuleType:
    _make_importable(Path.cwd())
    with _errors_of(f"Module '{name}'"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as exc:
            if exc.name is not None and (name == exc.name or name.startswith(f"{exc.name}.")):
                raise ResolverError(
                    f"There is no module '{name}': install its package, start in the folder that has it, "
                    "or give the file as path/to/file.py:function"
                ) from exc
            raise ResolverError(f"Module '{name}' needs '{exc.name}', which is not installed") from exc


@contextmanager
def _errors_of(what: str) -> Iterator[None]:
    """Every error of an import becomes a ResolverError."""
    try:
        yield
    except ResolverError:
        raise
    except Exception as exc:  # user code: a module may raise anything while it is imported
        raise _cannot_import(what, exc) from exc


def _cannot_import(what: str, exc: Exception) -> ResolverError:
    """Names the line of the author's code that raised; a SyntaxError contains its own line."""
    frames = [] if isinstance(exc, SyntaxError) else traceback.extract_tb(exc.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith("<") and frame.filename != __file__]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return ResolverError(f"{what} cannot be imported: {type(exc).__name__}: {exc}{where}")


def _function(module: ModuleType, place: str, attribute: str) -> FlowResolver:
    found: object = getattr(module, attribute, None)
    if found is None:
        raise ResolverError(
            f"{place} has no '{attribute}': define it there, or change the name after the colon"
        )
    if isinstance(found, Flow):
        raise ResolverError(
            f"{place}:{attribute} is a Flow; name a function that takes a flow's name and returns a Flow"
        )
    if not callable(found):
        raise ResolverError(
            f"{place}:{attribute} is a {type(found).__name__}, not a function; name a function"
        )
    resolver: FlowResolver = found
    return resolver


def _make_importable(folder: Path) -> None:
    # As `python file.py` and `python -m` do; a console script would not find the author's modules.
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _module_name(path: Path) -> str:
    """The file's own name, so that files beside it import the same module, unless that name is taken."""
    known = sys.modules.get(path.stem)
    if known is None or getattr(known, "__file__", None) == str(path):
        return path.stem
    return f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
