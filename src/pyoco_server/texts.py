"""Messages in Japanese and English, and the choice of the language of a caller.

Owns the messages of the specification (MSG-PYOCO-0001 to 0024). They are headings; the sentence that says
what to do belongs to the error that is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

Language = Literal["ja", "en"]

ACCEPTED_RANGES_MAX = 32  # of one Accept-Language header

# The specification's own wording, to the letter.
JAPANESE = {
    "MSG-PYOCO-0001": "稼働確認に失敗しました",
    "MSG-PYOCO-0002": "リクエストが不正です",
    "MSG-PYOCO-0003": "NATSが利用できません",
    "MSG-PYOCO-0004": "孤児runが残っている可能性があります（best-effort cleanup失敗）",
    "MSG-PYOCO-0005": "runが見つかりません",
    "MSG-PYOCO-0006": "flowが見つかりません",
    "MSG-PYOCO-0007": "実行に失敗しました",
    "MSG-PYOCO-0008": "terminal状態の記録に失敗しました",
    "MSG-PYOCO-0009": "in_progress ACK の送信に失敗しました",
    "MSG-PYOCO-0010": "スナップショットが大きすぎます",
    "MSG-PYOCO-0011": "DLQへのpublishに失敗しました（best-effort）",
    "MSG-PYOCO-0012": "不正なジョブを受信しました",
    "MSG-PYOCO-0013": "ログ出力に失敗しました（best-effort）",
    "MSG-PYOCO-0014": "API key が必要です",
    "MSG-PYOCO-0015": "API key が無効です",
    "MSG-PYOCO-0016": "ワークフローファイルが大きすぎます",
    "MSG-PYOCO-0017": "一覧クエリが不正です",
    "MSG-PYOCO-0018": "CLI引数が不正です（入力形式を確認してください）",
    "MSG-PYOCO-0019": "workersリクエストが不正です",
    "MSG-PYOCO-0020": "workerが見つかりません",
    "MSG-PYOCO-0021": "cancel要求がタイムアウトしました（best-effort）",
    "MSG-PYOCO-0022": "wheelバージョンが不正です（同一/過去バージョンは不可）",
    "MSG-PYOCO-0023": "wheelが見つかりません",
    "MSG-PYOCO-0024": "wheel同期に失敗しました（best-effort）",
}

ENGLISH = {
    "MSG-PYOCO-0001": "The gateway did not answer the health check",
    "MSG-PYOCO-0002": "The request is not valid",
    "MSG-PYOCO-0003": "NATS is not available",
    "MSG-PYOCO-0004": "An orphaned run may remain (best-effort cleanup failed)",
    "MSG-PYOCO-0005": "The run was not found",
    "MSG-PYOCO-0006": "The flow was not found",
    "MSG-PYOCO-0007": "The execution failed",
    "MSG-PYOCO-0008": "The terminal state could not be recorded",
    "MSG-PYOCO-0009": "The in_progress ACK could not be sent",
    "MSG-PYOCO-0010": "The snapshot is too large",
    "MSG-PYOCO-0011": "The dead letter could not be published (best-effort)",
    "MSG-PYOCO-0012": "An invalid job was received",
    "MSG-PYOCO-0013": "The log could not be written (best-effort)",
    "MSG-PYOCO-0014": "An API key is required",
    "MSG-PYOCO-0015": "The API key is not valid",
    "MSG-PYOCO-0016": "The workflow file is too large",
    "MSG-PYOCO-0017": "The list query is not valid",
    "MSG-PYOCO-0018": "The CLI arguments are not valid (check the form of the input)",
    "MSG-PYOCO-0019": "The workers request is not valid",
    "MSG-PYOCO-0020": "The worker was not found",
    "MSG-PYOCO-0021": "The cancel request timed out (best-effort)",
    "MSG-PYOCO-0022": "The wheel version is not valid (the same or an older version is not accepted)",
    "MSG-PYOCO-0023": "The wheel was not found",
    "MSG-PYOCO-0024": "The wheel sync failed (best-effort)",
}

CATALOGUES: Mapping[Language, Mapping[str, str]] = MappingProxyType({"ja": JAPANESE, "en": ENGLISH})


def text(msg_id: str, lang: Language) -> str:
    """The message; KeyError for an unknown id."""
    return CATALOGUES[lang][msg_id]


def choose_language(accept_language: str | None, default: Language = "en") -> Language:
    """The catalogue language with the highest quality in an Accept-Language header; of equals, the first."""
    wishes: dict[str, float] = {}
    for name, quality in _ranges(accept_language or ""):
        wishes[name] = max(quality, wishes.get(name, 0.0))
    others = wishes.get("*", 0.0)
    named: list[Language] = [lang for wish in wishes for lang in CATALOGUES if lang == wish]
    candidates = [*named, default, *CATALOGUES]
    best = max(candidates, key=lambda lang: wishes.get(lang, others))
    return best if wishes.get(best, others) > 0 else default


def locale_language(environ: Mapping[str, str]) -> Language | None:
    """The catalogue language of a locale, by the rules of POSIX; None for `C` and other languages."""
    named = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "")
    word = named.lower().partition(".")[0].partition("_")[0]
    return next((language for language in CATALOGUES if language == word), None)


def _ranges(header: str) -> Iterator[tuple[str, float]]:
    """`ja-JP;q=0.8` is ("ja", 0.8); an invalid range is skipped."""
    for item in header.split(",")[:ACCEPTED_RANGES_MAX]:
        name, _, parameter = item.partition(";")
        quality = _quality(parameter)
        if name.strip() and quality is not None:
            yield name.strip().lower().split("-")[0], quality


def _quality(parameter: str) -> float | None:
    if not parameter.strip():
        return 1.0
    key, _, value = parameter.partition("=")
    try:
        quality = float(value)
    except ValueError:
        return None
    return quality if key.strip().lower() == "q" and 0 <= quality <= 1 else None
