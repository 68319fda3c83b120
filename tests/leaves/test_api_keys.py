"""API keys: their form, what is kept of them, and when they fit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pyoco_server import api_keys, auth
from pyoco_server.auth import ApiKeyError, ApiKeyRecord, generate_api_key, parse_api_key, verify_api_key
from tests.keyring import id_of, secret_of, upstreams_record, with_wrong_secret

UPSTREAMS_MEMBERS = [
    "key_id", "tenant_id", "kdf", "iterations", "salt_b64", "hash_b64", "created_at", "revoked_at",
]  # fmt: skip


def test_a_key_is_an_id_and_256_bits_by_chance() -> None:
    key, record = generate_api_key(tenant_id="acme", now=5.0)
    key_id, secret = parse_api_key(key)
    assert key == f"pyoco_{key_id}.{secret}"
    assert (record.key_id, record.tenant_id, record.created_at) == (key_id, "acme", 5.0)
    assert len(secret) == 43
    assert secret not in repr(record)
    assert generate_api_key(tenant_id="acme")[0] != key


def test_a_key_fits_its_record_and_no_other() -> None:
    key, record = generate_api_key(tenant_id="acme", pepper="p")
    _, other = generate_api_key(tenant_id="acme", pepper="p")
    assert verify_api_key(key, record=record, pepper="p") is True
    assert verify_api_key(with_wrong_secret(key), record=record, pepper="p") is False
    assert verify_api_key(key, record=other, pepper="p") is False
    assert verify_api_key(key, record=replace(other, key_id=record.key_id), pepper="p") is False


@pytest.mark.parametrize("pepper", [None, "", "other"])
def test_another_pepper_ends_every_key(pepper: str | None) -> None:
    ours, record = generate_api_key(tenant_id="acme", pepper="p")
    slow, slow_record = generate_api_key(tenant_id="acme", pepper="p", iterations=10)
    assert verify_api_key(ours, record=record, pepper=pepper) is False
    assert verify_api_key(slow, record=slow_record, pepper=pepper) is False


def test_no_pepper_and_an_empty_one_are_the_same() -> None:
    key, record = generate_api_key(tenant_id="acme", pepper=None)
    assert verify_api_key(key, record=record, pepper="") is True


def test_a_revoked_or_expired_key_does_not_fit() -> None:
    key, record = generate_api_key(tenant_id="acme")
    assert verify_api_key(key, record=replace(record, revoked_at=1.0), pepper=None) is False
    expiring = replace(record, expires_at=100.0)
    assert verify_api_key(key, record=expiring, pepper=None, now=99.9) is True
    assert verify_api_key(key, record=expiring, pepper=None, now=100.0) is False


@pytest.mark.parametrize(
    "text",
    ["pyoco_", "nothing", "pyoco_abcdefgh", "pyoco_abcdefgh.", "pyoco_short.0123456789abcdef", "x" * 10_000,
     "pyoco_abcdefgh.0123456789abcdef\n", "pyoco_abcd efgh.0123456789abcdef",
     "pyoco_abc.efgh.0123456789abcdef",
     "PYOCO_abcdefgh.0123456789abcdef", "pyoco_abcdefgh.tooshort", "pyoco_abcdéfgh.0123456789abcdef"],
)  # fmt: skip
def test_what_is_no_key_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ApiKeyError) as refused:
        parse_api_key(text)
    assert refused.value.code == "invalid_format"
    assert text.strip() == "pyoco_" or text not in str(refused.value)


def test_no_key_at_all_has_a_code_of_its_own() -> None:
    with pytest.raises(ApiKeyError) as refused:
        parse_api_key("")
    assert refused.value.code == "missing"
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("tenant_id", ["", "a b", "a.b", "x" * 65, "é"])
def test_a_tenant_that_cannot_be_a_name_is_refused(tenant_id: str) -> None:
    with pytest.raises(ValueError, match="tenant"):
        generate_api_key(tenant_id=tenant_id)


def test_a_record_of_upstream_is_read_and_verified() -> None:
    key = "pyoco_0123456789abcdef01234567.ZpYk2n3v5y8zBDEGKMNPQSTVWXYZabcdefghijklmno"
    raw = upstreams_record(key, pepper="p")
    record = ApiKeyRecord.from_json_bytes(raw)
    assert (record.kdf, record.iterations, record.is_revoked()) == ("pbkdf2_hmac_sha256", 200_000, False)
    assert verify_api_key(key, record=record, pepper="p") is True
    assert verify_api_key(with_wrong_secret(key), record=record, pepper="p") is False


def test_a_known_record_of_upstream_verifies_to_the_bit() -> None:
    """Numbers from elsewhere, so that the way they are derived cannot change unnoticed."""
    key = "pyoco_0123456789abcdef01234567.ZpYk2n3v5y8zBDEGKMNPQSTVWXYZabcdefghijklmno"
    record = ApiKeyRecord(
        key_id="0123456789abcdef01234567",
        tenant_id="acme",
        kdf="pbkdf2_hmac_sha256",
        iterations=1000,
        salt_b64="c3Nzc3Nzc3Nzc3Nzc3Nzcw",
        hash_b64="a3T045XrlrUPTT-iXs7-OUFtE5zEyhHjVSXESk77tpI",
        created_at=0.0,
    )
    assert verify_api_key(key, record=record, pepper="pepper") is True


def test_our_record_has_upstreams_members_first_and_comes_back_as_it_was() -> None:
    _, plain = generate_api_key(tenant_id="acme", now=1.0)
    assert list(json.loads(plain.to_json_bytes())) == UPSTREAMS_MEMBERS
    _, full = generate_api_key(
        tenant_id="acme", now=1.0, name="ci", scopes=("runs:read", "runs:write"), expires_at=9.0
    )
    _, full = api_keys.rotate_secret(full, pepper=None, now=2.0, grace_sec=3.0)
    assert list(json.loads(full.to_json_bytes()))[:8] == UPSTREAMS_MEMBERS
    assert ApiKeyRecord.from_json_bytes(full.to_json_bytes()) == full
    assert ApiKeyRecord.from_json_bytes(plain.to_json_bytes()) == plain


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"\xff", b'{"key_id": 1}', b"null"])
def test_what_is_no_record_is_refused(raw: bytes) -> None:
    with pytest.raises(ApiKeyError) as refused:
        ApiKeyRecord.from_json_bytes(raw)
    assert refused.value.code == "invalid_record"


@pytest.mark.parametrize(
    "wrong", [{"kdf": "md5"}, {"iterations": 0}, {"iterations": 10**12}, {"salt_b64": "!"}, {"hash_b64": "é"}]
)
def test_a_record_that_cannot_be_verified_is_refused(wrong: dict[str, object]) -> None:
    _, record = generate_api_key(tenant_id="acme")
    with pytest.raises(ApiKeyError) as refused:
        replace(record, **wrong).hashed_secrets()  # type: ignore[arg-type]
    assert refused.value.code == "invalid_record"


def test_after_a_rotation_both_secrets_fit_for_the_grace_and_then_the_new_one() -> None:
    first, record = generate_api_key(tenant_id="acme", pepper="p")
    second, record = api_keys.rotate_secret(record, pepper="p", now=100.0, grace_sec=10.0)
    assert id_of(first) == id_of(second)
    assert secret_of(first) != secret_of(second)
    for at, fits in ((100.0, [True, True]), (109.9, [True, True]), (110.0, [False, True])):
        found = [verify_api_key(key, record=record, pepper="p", now=at) for key in (first, second)]
        assert found == fits


def test_a_second_rotation_ends_the_secret_before_the_last() -> None:
    first, record = generate_api_key(tenant_id="acme")
    second, record = api_keys.rotate_secret(record, pepper=None, now=100.0, grace_sec=10.0)
    third, record = api_keys.rotate_secret(record, pepper=None, now=101.0, grace_sec=10.0)
    fits = [verify_api_key(key, record=record, pepper=None, now=102.0) for key in (first, second, third)]
    assert fits == [False, True, True]


def test_a_slow_hash_becomes_a_fast_one_wherever_it_stands() -> None:
    old, record = generate_api_key(tenant_id="acme", pepper="p", iterations=10)
    (slow,) = record.hashed_secrets()
    fast = api_keys.rehash(record, slow, secret_of(old), "p")
    assert (fast.kdf, fast.key_id) == ("hmac_sha256", record.key_id)
    assert verify_api_key(old, record=fast, pepper="p") is True
    new, turned = api_keys.rotate_secret(record, pepper="p", now=100.0, grace_sec=10.0)
    fast = api_keys.rehash(turned, turned.hashed_secrets()[1], secret_of(old), "p")
    assert [kept.is_slow for kept in fast.hashed_secrets()] == [False, False]
    assert [verify_api_key(key, record=fast, pepper="p", now=105.0) for key in (old, new)] == [True, True]
    assert verify_api_key(old, record=fast, pepper="p", now=110.0) is False


def test_the_module_of_the_contract_has_its_names() -> None:
    assert set(auth.__all__) == {
        "ApiKeyError", "ApiKeyRecord", "generate_api_key", "parse_api_key", "verify_api_key",
    }  # fmt: skip
