"""An authority for tests, and certificates of it for processes on loopback, in the files of a folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

VALID_FOR = timedelta(days=1)


def write_certificates(folder: Path, *names: str) -> None:
    """`ca.pem`, and `NAME.pem` with `NAME.key` for each name; all are valid for 127.0.0.1."""
    authority = ec.generate_private_key(ec.SECP256R1())
    described = _described("authority", authority.public_key(), "authority")
    root = described.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    (folder / "ca.pem").write_bytes(root.sign(authority, SHA256()).public_bytes(Encoding.PEM))
    loopback = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        signed = (
            _described(name, key.public_key(), "authority")
            .add_extension(loopback, critical=False)
            .sign(authority, SHA256())
        )
        (folder / f"{name}.pem").write_bytes(signed.public_bytes(Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )


def _described(name: str, key: ec.EllipticCurvePublicKey, issuer: str) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID_FOR)
        .not_valid_after(now + VALID_FOR)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
