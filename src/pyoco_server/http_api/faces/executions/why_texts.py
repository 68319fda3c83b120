"""Why an execution is in its state, in two languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyoco_server.http_api.faces.executions import wire
from pyoco_server.http_api.faces.executions.errors import word_of
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.status import SLEEP_KEY_PREFIX
from pyoco_server.operations.runs.why import AHEAD_MAX, Because
from pyoco_server.store.runs.refusals import Refusal
from pyoco_server.texts import Language

NAMES_SHOWN = 10

ENGLISH = {
    "not_started": "It was created and not started. POST …/start starts it.",
    "ready": "Node {task} is READY: its driver may start attempt {attempt}.",
    "running": "Node {task} is RUNNING at {worker}{until}.",
    "waiting": "Waiting for an answer to “{key}” (node {task}) since {since}{until}.",
    "waiting_for_approval": "Waiting for approval “{task}” since {since}{until}.",
    "sleeping": "Node {task} has been sleeping since {since}{until}.",
    "retrying": "Node {task} failed ({error}) and is READY again at {at}.",
    "after": "Node {task} comes after {tasks}.",
    "parked": "It is waiting and occupies no worker.",
    "at_worker": "Worker {worker} is executing it.",
    "trying_again": "Node {task} failed ({error}); attempt {attempt} follows shortly.",
    "worker_lost": "Worker {worker} has sent no heartbeat since {since}. Another worker takes the run over "
    "at about {at}.",
    "queued": "{ahead} runs are ahead of it in the queue of tag {tag}. Queued since {since}.",
    "queued_next": "Next in line for a free worker of tag {tag}. Queued since {since}.",
    "queued_far": "At least {ahead} runs are ahead of it in the queue of tag {tag}. Queued since {since}.",
    "queued_behind_one": "One run is ahead of it in the queue of tag {tag}. Queued since {since}.",
    "no_worker": "No live worker serves the tag {tag}. Start one, or cancel the run.",
    "draining": "All {count} workers of tag {tag} are draining and take no new runs. Resume one, "
    "start another, or cancel the run.",
    "draining_alone": "The only worker of tag {tag} is draining and takes no new runs. Resume it, start "
    "another, or cancel the run.",
    "not_yet": "Scheduled to start at {at}.",
    "expires": "It is cancelled if it has not started at {at}.",
    "cancelling": "A cancel was accepted at {at}{by}. Worker {worker} is stopping it; it ends CANCELED.",
    "completed": "COMPLETED: every final node that was executed succeeded.",
    "forgiven": "Node {task} failed ({error}); a later join tolerates that.",
    "expired": "CANCELED: it had not started at {at}, when it expired.",
    "cancelled": "CANCELED: a cancel was accepted at {at}{by}. It cannot be undone.",
    "failed": "FAILED ({reason}){task}: {error}",
    "task_failed": "Node {task} failed: {error}",
    "until": ", until {until} at the latest",
    "by": " from {by}",
    "of_task": " at node {task}",
}
JAPANESE = {
    "not_started": "作成済みですが開始されていません。POST …/start で開始します。",
    "ready": "ノード {task} は READY です。実行側は試行 {attempt} を開始できます。",
    "running": "ノード {task} は {worker} で RUNNING です{until}。",
    "waiting": "{since} から「{key}」への回答を待っています (ノード {task}){until}。",
    "waiting_for_approval": "{since} から承認「{task}」を待っています{until}。",
    "sleeping": "ノード {task} は {since} からスリープ中です{until}。",
    "retrying": "ノード {task} は失敗しました ({error})。{at} に再び READY になります。",
    "after": "ノード {task} は {tasks} の後に続きます。",
    "parked": "待機中で、ワーカーを使用していません。",
    "at_worker": "ワーカー {worker} が実行しています。",
    "trying_again": "ノード {task} は失敗しました ({error})。まもなく試行 {attempt} を行います。",
    "worker_lost": "ワーカー {worker} は {since} からハートビートがありません。"
    "{at} ごろ別のワーカーが引き継ぎます。",
    "queued": "タグ {tag} のキューで前に {ahead} 件あります。{since} から待っています。",
    "queued_next": "タグ {tag} のワーカーが空き次第、次に実行されます。{since} から待っています。",
    "queued_far": "タグ {tag} のキューで前に {ahead} 件以上あります。{since} から待っています。",
    "queued_behind_one": "タグ {tag} のキューで前に 1 件あります。{since} から待っています。",
    "no_worker": "タグ {tag} に対応する稼働中のワーカーがありません。"
    "ワーカーを起動するか、実行を取り消してください。",
    "draining": "タグ {tag} に対応するワーカー {count} 台はすべてドレイン中で、"
    "新しい実行を受け付けません。再開するか、別のワーカーを起動するか、実行を取り消してください。",
    "draining_alone": "タグ {tag} に対応する唯一のワーカーはドレイン中で、"
    "新しい実行を受け付けません。再開するか、別のワーカーを起動するか、実行を取り消してください。",
    "not_yet": "{at} に開始予定です。",
    "expires": "{at} までに開始しない場合は、キャンセルされます。",
    "cancelling": "{at} に取消を受け付けました{by}。ワーカー {worker} が停止中で、CANCELED で終わります。",
    "completed": "COMPLETED です。実行された末端ノードはすべて成功しました。",
    "forgiven": "ノード {task} は失敗しましたが ({error})、後続の join が許容します。",
    "expired": "CANCELED です。有効期限の {at} までに開始しませんでした。",
    "cancelled": "CANCELED です。{at} に取消を受け付けました{by}。元に戻すことはできません。",
    "failed": "FAILED です ({reason}){task}: {error}",
    "task_failed": "ノード {task} が失敗しました: {error}",
    "until": " (期限 {until})",
    "by": " ({by})",
    "of_task": "、ノード {task}",
}
CATALOGUES: Mapping[Language, Mapping[str, str]] = {"en": ENGLISH, "ja": JAPANESE}

# Where this face has another term than the core.
_WORDS = {
    "cancelled": "CANCELED",
    "cancelling": "CANCEL_REQUESTED",
    "task_failed": "NODE_FAILED",
}
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
        case Because("waiting", {"key": str(key)}) if key.startswith(SLEEP_KEY_PREFIX):
            return "sleeping"
        case Because("waiting", {"key": key, "task": task}) if key == task:
            return "waiting_for_approval"
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
