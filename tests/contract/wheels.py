"""A wheel for tests: as small as one can be."""

from __future__ import annotations

import io
import zipfile


def a_wheel(package: str, version: str) -> tuple[str, bytes]:
    """Its file name and its bytes."""
    info = f"{package}-{version}.dist-info"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(f"{package}/__init__.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"{package}-{version}-py3-none-any.whl", data.getvalue()
