"""The keys of a workflow and their values. Reports every problem and continues.

Keys and the types of problems are those of earlier versions. What pyoco would refuse only while the flow runs
(a `$` without a valid reference, a `callable` with two attributes) is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyoco_server.expressions import ExpressionError
from pyoco_server.workflow_yaml.expressions import check_input
from pyoco_server.workflow_yaml.model import RuntimeConfig, TaskConfig
from pyoco_server.workflow_yaml.problems import Path, Problems, SourcePosition, quoted
from pyoco_server.workflow_yaml.reading import (
    Entries,
    Items,
    Node,
    Scalar,
    UnreadableYaml,
    YamlEntry,
    plain_members,
)

TOP_KEYS = ("version", "flow", "tasks", "pipes", "runtime")
FLOW_KEYS = ("graph", "defaults")
TASK_KEYS = ("callable", "use", "inputs", "outputs")
RUNTIME_KEYS = ("expose_env",)
FORBIDDEN = {
    "flows": "A file has one flow; write 'flow:' with its graph instead of 'flows:'.",
    "discovery": "Which modules are searched is set on the worker; remove 'discovery:'.",
}
TEXT_CHARS_MAX = 1024

_CALLABLE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
_REFERENCE = re.compile(r"\$node\.[^.]+\.output(?:\..+)?|\$ctx\.params\..+|\$env\..+", re.DOTALL)
_NO_ENTRY = YamlEntry(SourcePosition(1, 1), Scalar(SourcePosition(1, 1), None))


class Schema:
    """The top level of a file. A missing or invalid part counts as empty, so that the others are checked."""

    def __init__(self, root: Node | None, problems: Problems) -> None:
        self._problems = problems
        if not isinstance(root, Entries):
            place = root.place if root else SourcePosition(1, 1)
            sentence = "The file must be a mapping with 'flow:' and 'tasks:'."
            raise problems.fail("invalid_yaml_root", sentence, place)
        self._root = root
        for key, sentence in FORBIDDEN.items():
            if key in root.by_key:
                problems.add(f"unsupported_key_{key}", sentence, root.by_key[key].key_place, (key,))
        self._check_keys(root, (*TOP_KEYS, *FORBIDDEN), TOP_KEYS, "unknown_top_level_keys", ())

    def version(self) -> int:
        node = self._root.by_key.get("version", _NO_ENTRY).node
        match node:
            case Scalar(value=bool()):
                pass
            case Scalar(value=int() as number):
                return number
            case Scalar(value=str() as text) if text.isascii() and text.isdigit() and len(text) < 10:
                return int(text)
            case UnreadableYaml():
                return 1
        if "version" in self._root.by_key:
            self._problems.add("invalid_version", "version must be a whole number.", node.place, ("version",))
        return 1

    def flow(self, *, required: bool) -> Entries | None:
        entry = self._root.by_key.get("flow")
        if entry is None or _is_null(entry.node):
            if required:
                place = entry.key_place if entry else self._root.place
                sentence = "There is no flow; write 'flow:' with a 'graph:' in it."
                self._problems.add("missing_flow", sentence, place, ("flow",))
            return None
        flow = self._entries(entry, "invalid_flow", ("flow",))
        self._check_keys(flow, FLOW_KEYS, FLOW_KEYS, "unknown_flow_keys", ("flow",))
        return flow

    def graph(self, flow: Entries) -> Scalar | None:
        entry = flow.by_key.get("graph")
        match entry:
            case YamlEntry(node=Scalar(value=str() as text) as node) if text.strip():
                return node
            case YamlEntry(node=UnreadableYaml()):
                return None
        place = entry.node.place if entry else flow.place
        sentence = "graph must be text with at least one task, as in: graph: first >> second"
        self._problems.add("missing_flow_graph", sentence, place, ("flow", "graph"))
        return None

    def defaults(self, flow: Entries) -> Entries:
        entry = flow.by_key.get("defaults", _NO_ENTRY)
        return self._entries(entry, "invalid_flow_defaults", ("flow", "defaults"))

    def tasks(self) -> dict[str, TaskConfig]:
        entry = self._root.by_key.get("tasks", _NO_ENTRY)
        tasks = self._entries(entry, "invalid_tasks", ("tasks",))
        return {name: self._task(name, one) for name, one in tasks.by_key.items()}

    def pipes(self) -> dict[str, Scalar]:
        entry = self._root.by_key.get("pipes", _NO_ENTRY)
        found: dict[str, Scalar] = {}
        for name, one in self._entries(entry, "invalid_pipes", ("pipes",)).by_key.items():
            match one.node:
                case Scalar(value=str() as text) as node if text.strip():
                    found[name] = node
                case UnreadableYaml():
                    pass
                case node:
                    sentence = "A pipe must be text with at least one task."
                    self._problems.add("invalid_pipes", sentence, node.place, ("pipes", name))
        return found

    def runtime(self) -> RuntimeConfig:
        entry = self._root.by_key.get("runtime", _NO_ENTRY)
        runtime = self._entries(entry, "invalid_runtime", ("runtime",))
        self._check_keys(runtime, RUNTIME_KEYS, RUNTIME_KEYS, "unknown_runtime_keys", ("runtime",))
        exposed = runtime.by_key.get("expose_env", _NO_ENTRY)
        path = ("runtime", "expose_env")
        return RuntimeConfig(self._texts(exposed, "invalid_runtime_expose_env", path))

    def _task(self, name: str, entry: YamlEntry) -> TaskConfig:
        path = ("tasks", name)
        if not name.strip() or len(name) > TEXT_CHARS_MAX:
            self._problems.add("invalid_task_name", "A task needs a name.", entry.key_place, ("tasks",))
        if not isinstance(entry.node, Entries | UnreadableYaml):
            sentence = "A task must be a mapping, as in: {use: package/task}; empty is {}."
            self._problems.add("invalid_task_config", sentence, entry.node.place, path)
            return TaskConfig()
        task = self._entries(entry, "invalid_task_config", path)
        self._check_keys(task, TASK_KEYS, TASK_KEYS, "unknown_task_keys", path)
        callable_, use = self._callable(task, path), self._use(task, path)
        if callable_ is not None and use is not None:
            sentence = "A task has 'callable' or 'use', not both."
            self._problems.add("invalid_task_config", sentence, entry.key_place, path)
        return TaskConfig(callable_, use, self._inputs(task, path), self._outputs(task, path))

    def _callable(self, task: Entries, path: Path) -> str | None:
        text = self._text(task, "callable", "invalid_task_callable", path)
        if text is not None and not _CALLABLE.fullmatch(text):
            sentence = "callable must be module:function, as in: my_package.tasks:clean"
            place = task.by_key["callable"].node.place
            self._problems.add("invalid_task_callable", sentence, place, (*path, "callable"))
        return text

    def _use(self, task: Entries, path: Path) -> str | None:
        return self._text(task, "use", "invalid_task_use", path)

    def _inputs(self, task: Entries, path: Path) -> dict[str, object]:
        entry = task.by_key.get("inputs", _NO_ENTRY)
        inputs = self._entries(entry, "invalid_task_inputs", (*path, "inputs"))
        for name, one in inputs.by_key.items():
            if isinstance(one.node, Scalar) and isinstance(one.node.value, str):
                self._check_reference(one.node, one.node.value, (*path, "inputs", name))
        return plain_members(inputs)

    def _check_reference(self, node: Scalar, text: str, path: Path) -> None:
        if text.startswith("$") and not _REFERENCE.fullmatch(text):
            sentence = "A value that begins with $ is $node.<node>.output, $ctx.params.<name> or $env.<NAME>."
            self._problems.add("invalid_reference", sentence, node.place, path)
        elif text.startswith("$"):
            try:
                check_input(text)
            except ExpressionError as error:
                self._problems.add("invalid_reference", str(error), node.place, path)

    def _outputs(self, task: Entries, path: Path) -> tuple[str, ...]:
        return self._texts(task.by_key.get("outputs", _NO_ENTRY), "invalid_task_outputs", (*path, "outputs"))

    def _entries(self, entry: YamlEntry, kind: str, path: Path) -> Entries:
        node = entry.node
        if isinstance(node, Entries):
            return node
        if not isinstance(node, UnreadableYaml) and not _is_null(node):
            self._problems.add(kind, f"{path[-1]} must be a mapping."[:200], node.place, path)
        return Entries(node.place)

    def _text(self, outer: Entries, key: str, kind: str, path: Path) -> str | None:
        node = outer.by_key.get(key, _NO_ENTRY).node
        match node:
            case Scalar(value=str() as text) if text.strip() and len(text) <= TEXT_CHARS_MAX:
                return text
            case Scalar(value=None) | UnreadableYaml():
                return None
        sentence = f"{key} must be text with 1 to {TEXT_CHARS_MAX} characters."
        self._problems.add(kind, sentence, node.place, (*path, key))
        return None

    def _texts(self, entry: YamlEntry, kind: str, path: Path) -> tuple[str, ...]:
        node = entry.node
        if isinstance(node, UnreadableYaml) or _is_null(node):
            return ()
        values = [one.value if isinstance(one, Scalar) else None for one in _nodes(node)]
        texts = tuple(value for value in values if isinstance(value, str))
        if not isinstance(node, Items) or len(texts) < len(values):
            self._problems.add(kind, f"{path[-1]} must be a list of texts.", node.place, path)
        return texts

    def _check_keys(
        self, outer: Entries, known: Iterable[str], offered: tuple[str, ...], kind: str, path: Path
    ) -> None:
        for key, entry in outer.by_key.items():
            if key not in known:
                sentence = f"There is no key {quoted(key)} here; there is {', '.join(offered)}."
                self._problems.add(kind, sentence, entry.key_place, (*path, key[:64]))


def _nodes(node: Node) -> list[Node]:
    return node.nodes if isinstance(node, Items) else []


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None
