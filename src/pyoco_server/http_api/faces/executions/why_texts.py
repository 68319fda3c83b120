"""Why an execution is in its state, in two languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyoco_server.http_api.faces.executions import wire
from pyoco_server.http_api.faces.executions.errors import word_of
from pyoco_server.json_value import JsonObject
from pyoco_server.operations.runs.why import AHEAD_MAX, Because
from pyoco_server.store.runs.refusals import Refusal
from pyoco_server.texts import Language

NAMES_SHOWN = 10

ENGLISH = {
    "not_started": "It was created and not started: POST …/start begins it.",
    "ready": "Node {task} is READY: its driver may start attempt {attempt}.",
    "running": "Node {task} is RUNNING at {worker}{until}.",
    "waiting": "Node {task} waits for an answer to {key} since {since}{until}.",
    "retrying": "Node {task} failed ({error}) and is READY again at {at}.",
    "after": "Node {task} comes after {tasks}.",
    "parked": "It waits, and no worker holds it.",
    "at_worker": "Worker {worker} runs it.",
    "trying_again": "Node {task} failed ({error}); attempt {attempt} follows in a moment.",
    "worker_lost": "Worker {worker} gives no sign of life since {since}: it is taken over at about {at}.",
    "queued": "{ahead} runs are ahead of it in the queue of tag {tag}; it waits since {since}.",
    "queued_next": "It is the next for a free worker of tag {tag}; it waits since {since}.",
    "queued_far": "At least {ahead} runs are ahead of it in the queue of tag {tag}; it waits since {since}.",
    "queued_behind_one": "One run is ahead of it in the queue of tag {tag}; it waits since {since}.",
    "no_worker": "No live worker serves the tag {tag}: start one, or cancel.",
    "draining": "All {count} workers for tag {tag} are draining: they take no new runs. Resume one, start "
    "another, or cancel.",
    "draining_alone": "The only worker for tag {tag} is draining: it takes no new runs. Resume it, start "
    "another, or cancel.",
    "not_yet": "It is to start at {at}.",
    "cancelling": "A cancel was accepted at {at}{by}; worker {worker} is being stopped. It ends CANCELED.",
    "completed": "It is COMPLETED: every last node that ran succeeded.",
    "forgiven": "Node {task} failed ({error}), which a join after it forgives.",
    "cancelled": "It is CANCELED: a cancel was accepted at {at}{by}, and nothing undoes that.",
    "failed": "It FAILED ({reason}){task}: {error}",
    "task_failed": "Node {task} failed: {error}",
    "until": ", at most until {until}",
    "by": " from {by}",
    "of_task": " at node {task}",
}
JAPANESE = {
    "not_started": "作成済みですが開始されていません。POST …/start で開始します。",
    "ready": "ノード {task} は READY です。実行側は試行 {attempt} を開始できます。",
    "running": "ノード {task} は {worker} で RUNNING です{until}。",
    "waiting": "ノード {task} は {since} から {key} への回答を待っています{until}。",
    "retrying": "ノード {task} は失敗しました（{error}）。{at} に再び READY になります。",
    "after": "ノード {task} は {tasks} の後に続きます。",
    "parked": "待機中で、どの worker にも割り当てられていません。",
    "at_worker": "worker {worker} が実行しています。",
    "trying_again": "ノード {task} は失敗しました（{error}）。まもなく試行 {attempt} を行います。",
    "worker_lost": "worker {worker} は {since} から応答がありません。{at} ごろ別の worker が引き継ぎます。",
    "queued": "タグ {tag} のキューで前に {ahead} 件あります。{since} から待っています。",
    "queued_next": "タグ {tag} の worker が空き次第、次に実行されます。{since} から待っています。",
    "queued_far": "タグ {tag} のキューで前に {ahead} 件以上あります。{since} から待っています。",
    "queued_behind_one": "タグ {tag} のキューで前に 1 件あります。{since} から待っています。",
    "no_worker": "タグ {tag} を担当する稼働中の worker がありません。起動するか cancel してください。",
    "draining": "タグ {tag} を担当する worker {count} 台はすべてドレイン中で、新しい実行を受け付けません。"
    "再開するか、別の worker を起動するか、cancel してください。",
    "draining_alone": "タグ {tag} を担当する唯一の worker はドレイン中で、新しい実行を受け付けません。"
    "再開するか、別の worker を起動するか、cancel してください。",
    "not_yet": "{at} に開始予定です。",
    "cancelling": "{at} に cancel を受理しました{by}。worker {worker} を停止中で、CANCELED で終わります。",
    "completed": "COMPLETED です。実行された末端ノードはすべて成功しました。",
    "forgiven": "ノード {task} は失敗しましたが（{error}）、後続の join が許容します。",
    "cancelled": "CANCELED です。{at} に cancel を受理しました{by}。取り消されることはありません。",
    "failed": "FAILED です（{reason}）{task}: {error}",
    "task_failed": "ノード {task} が失敗しました: {error}",
    "until": "（期限 {until}）",
    "by": "（{by}）",
    "of_task": "、ノード {task}",
}
CATALOGUES: Mapping[Language, Mapping[str, str]] = {"en": ENGLISH, "ja": JAPANESE}

# Where this face has another term than the core.
_WORDS = {"cancelled": "CANCELED", "cancelling": "CANCEL_REQUESTED", "task_failed": "NODE_FAILED"}
_INSTANTS = frozenset({"at", "since", "until"})
# Left out if there is no value.
_OPTIONAL = {"until": "until", "by": "by"}


def explained(reasons: Sequence[Because], refused: Sequence[Refusal], language: Language) -> JsonObject:
    sentences = [_sentence(one, language) for one in reasons]
    return {
        "summary": sentences[0] if sentences else "",
        "reasons": [
            {"reason": _WORDS.get(one.name, one.name.upper()), "message": sentence} | _node(one)
            for one, sentence in zip(reasons, sentences, strict=True)
        ],
        "refused": [_refusal(one) for one in refused],
    }


def _sentence(because: Because, language: Language) -> str:
    texts = CATALOGUES[language]
    fields = {name: _word(name, value) for name, value in because.fields.items()}
    for name in _OPTIONAL:
        if name in fields:
            given = because.fields[name] is not None
            fields[name] = texts[name].format(**{name: fields[name]}) if given else ""
    if because.name == "failed":
        task = because.fields["task"]
        fields["task"] = texts["of_task"].format(task=task) if task else ""
    return texts[_text_of(because)].format(**fields)


def _text_of(because: Because) -> str:
    match because:
        case Because("draining", {"count": 1}):
            return "draining_alone"
        case Because("queued", {"ahead": 0}):
            return "queued_next"
        case Because("queued", {"ahead": 1}):
            return "queued_behind_one"
        case Because("queued", {"ahead": int(ahead)}) if ahead >= AHEAD_MAX:
            return "queued_far"
        case _:
            return because.name


def _word(name: str, value: object) -> str:
    if value is None:
        return "–"
    if name in _INSTANTS:
        assert isinstance(value, int | float)
        return wire.instant(value)
    if isinstance(value, list):
        return ", ".join(value[:NAMES_SHOWN]) + (", …" if len(value) > NAMES_SHOWN else "")
    return str(value)


def _node(because: Because) -> JsonObject:
    task = because.fields.get("task")
    return {} if task is None else {"nodeId": task}


def _refusal(refusal: Refusal) -> JsonObject:
    shown: JsonObject = {
        "command": refusal.command,
        "reason": word_of(refusal.reason),
        "at": wire.instant(refusal.at),
    }
    more = {"nodeId": refusal.task, "by": refusal.by, "correlationId": refusal.correlation_id}
    return shown | {name: value for name, value in more.items() if value is not None}
