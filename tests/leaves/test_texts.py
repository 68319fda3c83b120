"""The messages in both languages, and which one a caller reads."""

import pytest

from pyoco_server.texts import CATALOGUES, ENGLISH, JAPANESE, choose_language, text

SPECIFIED = {f"MSG-PYOCO-{number:04}" for number in range(1, 25)}


def test_both_catalogues_have_every_message_of_the_specification_and_no_other() -> None:
    assert set(JAPANESE) == set(ENGLISH) == SPECIFIED


def test_no_message_is_empty_or_the_same_in_both_languages() -> None:
    assert all(JAPANESE[msg_id] and ENGLISH[msg_id] for msg_id in SPECIFIED)
    assert all(JAPANESE[msg_id] != ENGLISH[msg_id] for msg_id in SPECIFIED)


def test_english_has_no_japanese_letters() -> None:
    assert all(message.isascii() for message in ENGLISH.values())


def test_a_qualifier_of_the_specification_stands_in_both_languages() -> None:
    for word in ("best-effort", "in_progress", "ACK", "API key", "CLI", "NATS"):
        in_japanese = {msg_id for msg_id, message in JAPANESE.items() if word in message}
        assert in_japanese <= {msg_id for msg_id, message in ENGLISH.items() if word in message}


@pytest.mark.parametrize(
    ("msg_id", "wording"),
    [
        ("MSG-PYOCO-0001", "稼働確認に失敗しました"),
        ("MSG-PYOCO-0002", "リクエストが不正です"),
        ("MSG-PYOCO-0003", "NATSが利用できません"),
        ("MSG-PYOCO-0004", "孤児runが残っている可能性があります（best-effort cleanup失敗）"),
        ("MSG-PYOCO-0005", "runが見つかりません"),
        ("MSG-PYOCO-0006", "flowが見つかりません"),
        ("MSG-PYOCO-0007", "実行に失敗しました"),
        ("MSG-PYOCO-0008", "terminal状態の記録に失敗しました"),
        ("MSG-PYOCO-0009", "in_progress ACK の送信に失敗しました"),
        ("MSG-PYOCO-0010", "スナップショットが大きすぎます"),
        ("MSG-PYOCO-0011", "DLQへのpublishに失敗しました（best-effort）"),
        ("MSG-PYOCO-0012", "不正なジョブを受信しました"),
        ("MSG-PYOCO-0013", "ログ出力に失敗しました（best-effort）"),
        ("MSG-PYOCO-0014", "API key が必要です"),
        ("MSG-PYOCO-0015", "API key が無効です"),
        ("MSG-PYOCO-0016", "ワークフローファイルが大きすぎます"),
        ("MSG-PYOCO-0017", "一覧クエリが不正です"),
        ("MSG-PYOCO-0018", "CLI引数が不正です（入力形式を確認してください）"),
        ("MSG-PYOCO-0019", "workersリクエストが不正です"),
        ("MSG-PYOCO-0020", "workerが見つかりません"),
        ("MSG-PYOCO-0021", "cancel要求がタイムアウトしました（best-effort）"),
        ("MSG-PYOCO-0022", "wheelバージョンが不正です（同一/過去バージョンは不可）"),
        ("MSG-PYOCO-0023", "wheelが見つかりません"),
        ("MSG-PYOCO-0024", "wheel同期に失敗しました（best-effort）"),
    ],
)
def test_japanese_is_the_wording_of_the_specification(msg_id: str, wording: str) -> None:
    assert text(msg_id, "ja") == wording


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(KeyError):
        text("MSG-PYOCO-9999", "en")


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("ja", "ja"),
        ("ja-JP", "ja"),
        ("JA", "ja"),
        ("en-US,en;q=0.9,ja;q=0.8", "en"),
        ("ja;q=0.3, en;q=0.2", "ja"),
        ("en;q=0.1, ja;q=0.9", "ja"),
        ("ja, en", "ja"),
        ("en, ja", "en"),
        ("ja;q=0", "en"),
        ("en;q=0, *", "ja"),
        ("en;q=0, ja;q=0.1", "ja"),
        ("fr, de;q=0.9", "en"),
        ("fr, ja;q=0.1", "ja"),
        ("*", "en"),
        ("ja;q=x, en;q=0.1", "en"),
        ("ja;q=2, en;q=0.1", "en"),
        ("ja;q=nan", "en"),
        (";;,,=", "en"),
        ("ja ; q = 0.5 , en;q=0.4", "ja"),
    ],
)
def test_the_best_liked_language_of_ours_is_chosen(header: str | None, language: str) -> None:
    assert choose_language(header) == language


@pytest.mark.parametrize("header", [None, "fr", "*", "ja;q=0, en;q=0"])
def test_the_default_stands_where_the_header_says_nothing_about_us(header: str | None) -> None:
    assert choose_language(header, default="ja") == "ja"


def test_a_header_without_end_is_not_read_to_the_end() -> None:
    assert choose_language("fr," * 100_000 + "ja") == "en"


def test_every_language_has_a_catalogue() -> None:
    assert set(CATALOGUES) == {"ja", "en"}
