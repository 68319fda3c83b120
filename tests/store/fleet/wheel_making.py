"""Tiny wheels, made with nothing but a zip file."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Collection, Mapping
from io import BytesIO
from pathlib import Path

LIKE_A_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def file_name(package: str, version: str, *, build: str = "") -> str:
    parts = [package.replace("-", "_"), version, *([build] if build else []), "py3-none-any"]
    return "-".join(parts) + ".whl"


def made(folder: Path, package: str, version: str, *, build: str = "", extra: str = "") -> Path:
    """A wheel in a file; of one package with the version in it."""
    file = folder / file_name(package, version, build=build)
    file.write_bytes(wheel_bytes(package, version, {"extra.txt": extra} if extra else {}))
    return file


def wheel_bytes(
    package: str,
    version: str,
    files: Mapping[str, str] | None = None,
    *,
    leave_out: Collection[str] = (),
    metadata: str = "",
) -> bytes:
    """`files` beside the module of the package, which knows its VERSION."""
    module = package.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    contents = {f"{module}.py": f"VERSION = {version!r}\n"} | dict(files or {})
    about = {
        "METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{metadata}",
        "WHEEL": LIKE_A_WHEEL,
    }
    contents |= {f"{info}/{name}": text for name, text in about.items() if name not in leave_out}
    lines = [f"{name},{_digest(text)},{len(text.encode())}" for name, text in contents.items()]
    if "RECORD" not in leave_out:
        contents[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    return out.getvalue()


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
