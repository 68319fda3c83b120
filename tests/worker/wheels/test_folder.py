"""A worker's folder of wheels: whole or not there, its own, and no larger than it must be."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from pyoco_server.store.fleet.wheels import Wheel, check_wheel_name
from pyoco_server.store.fleet.wheels.unpacked import UnpackedMax
from pyoco_server.worker.wheels.folder import ABANDONED_AFTER_SEC, WheelFolder
from pyoco_server.worker.wheels.imports import swap_edition
from pyoco_server.worker.wheels.install import WheelBroken, install
from pyoco_server.worker.wheels.sync import RetrySchedule, choose
from tests.store.fleet.wheel_making import file_name, wheel_bytes

AT_MOST = UnpackedMax(bytes=2**20, files=100)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[WheelFolder]:
    opened = WheelFolder.open(tmp_path / "wheels", "w1")
    yield opened
    opened.close()


async def test_a_wheel_is_laid_out_as_pip_does(tmp_path: Path) -> None:
    files = {
        "demo_pkg/__init__.py": "",
        "demo-1.0.data/purelib/pure.py": "",
        "demo-1.0.data/data/share/demo.txt": "",
        "demo-1.0.data/scripts/run": "#!python\n",
        "demo-1.0.dist-info/entry_points.txt": "[console_scripts]\ndemo = demo:main\n",
    }
    await install(_file(tmp_path, "demo", "1.0", files), tmp_path / "out", AT_MOST, timeout_sec=60)
    out = tmp_path / "out"
    for name in ("demo.py", "demo_pkg/__init__.py", "pure.py", "share/demo.txt", "bin/run", "bin/demo"):
        assert (out / name).is_file()
    assert (out / "demo-1.0.dist-info" / "METADATA").is_file()
    assert (out / "bin" / "run").read_text().startswith(f"#!{sys.executable}")


SCRIPTS = "[console_scripts]\n" + "".join(f"s{number}=demo:main\n" for number in range(60))


@pytest.mark.parametrize(
    ("files", "at_most", "why"),
    [
        ({"big.txt": "0" * 2_000_000}, AT_MOST, "1048576 bytes unpacked .PYOCO_WHEEL_UNPACKED_MAX_BYTES"),
        ({f"f{number}.txt": "" for number in range(200)}, AT_MOST, "PYOCO_WHEEL_UNPACKED_MAX_FILES"),
        # Small by its directory: what is made of it is counted too.
        ({"demo-1.0.dist-info/entry_points.txt": SCRIPTS}, UnpackedMax(6_000, 100), "6000 bytes unpacked"),
        ({"demo-1.0.dist-info/entry_points.txt": SCRIPTS}, UnpackedMax(2**20, 30), "30 files"),
    ],
)
async def test_a_wheel_that_unpacks_to_more_than_the_limit_is_not_installed(
    tmp_path: Path, files: dict[str, str], at_most: UnpackedMax, why: str
) -> None:
    with pytest.raises(WheelBroken, match=why):
        await install(_file(tmp_path, "demo", "1.0", files), tmp_path / "out", at_most, timeout_sec=60)
    assert _bytes_below(tmp_path / "out") <= at_most.bytes


async def test_a_wheel_whose_directory_lies_does_not_unpack_to_more_than_it_says(tmp_path: Path) -> None:
    file = _file(tmp_path, "demo", "1.0", {"big.txt": "0" * 5_000_000})
    data = file.read_bytes()
    assert data.count((5_000_000).to_bytes(4, "little")) == 2
    file.write_bytes(data.replace((5_000_000).to_bytes(4, "little"), (1_000).to_bytes(4, "little")))
    with pytest.raises(WheelBroken):
        await install(file, tmp_path / "out", AT_MOST, timeout_sec=60)
    assert _bytes_below(tmp_path / "out") <= AT_MOST.bytes


def _bytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"no zip", "zip"),
        (wheel_bytes("demo", "1.0", leave_out=["WHEEL"]), "WHEEL"),
        (wheel_bytes("demo", "1.0", {"../../outside.py": ""}), "outside"),
        (wheel_bytes("demo", "1.0", metadata="Requires-Python: >=99\n"), "needs Python >=99"),
    ],
)
async def test_a_wheel_that_cannot_be_installed_says_why(tmp_path: Path, data: bytes, why: str) -> None:
    file = tmp_path / file_name("demo", "1.0")
    file.write_bytes(data)
    with pytest.raises(WheelBroken, match=why):
        await install(file, tmp_path / "a" / "b" / "out", AT_MOST, timeout_sec=60)
    assert not (tmp_path / "a" / "outside.py").exists()


async def test_an_installation_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    pipe = tmp_path / file_name("demo", "1.0")
    os.mkfifo(pipe)  # opening it waits for a writer, who never comes
    with pytest.raises(WheelBroken, match="PYOCO_WHEEL_INSTALL_TIMEOUT_SEC"):
        await install(pipe, tmp_path / "out", AT_MOST, timeout_sec=0.3)


def test_an_edition_has_the_files_of_its_wheels(folder: WheelFolder) -> None:
    a, b = _kept(folder, "a", "1", {"ns/one.py": "1"}), _kept(folder, "b", "1", {"ns/two.py": "2"})
    path = folder.edition([a, b])
    assert {str(file.relative_to(path)) for file in path.rglob("*.py")} == {
        "a.py", "b.py", "ns/one.py", "ns/two.py",
    }  # fmt: skip
    assert folder.edition([b, a]) == path
    assert folder.edition([a]) != path
    assert list(folder.edition([]).iterdir()) == []


def test_of_two_wheels_with_one_file_the_first_keeps_it(folder: WheelFolder) -> None:
    a = _kept(folder, "a", "1", {"shared.py": "a", "place": "a file"})
    b = _kept(folder, "b", "1", {"shared.py": "b", "place/x.py": "a folder"})
    path = folder.edition([a, b])
    assert (path / "shared.py").read_text() == "a"
    assert (path / "b.py").is_file()


def test_what_is_swept_does_not_take_a_file_from_an_edition(folder: WheelFolder) -> None:
    a, b = _kept(folder, "a", "1"), _kept(folder, "b", "1")
    old, new = folder.edition([a]), folder.edition([a, b])
    folder.sweep(editions=[new], wheels=[])
    assert not old.exists()
    assert (new / "a.py").read_text()
    assert not folder.has(a)


def test_a_restart_keeps_wheels_and_drops_what_was_not_ready(tmp_path: Path) -> None:
    first = WheelFolder.open(tmp_path, "w1")
    a = _kept(first, "a", "1")
    half = first.new_place()
    (half / "half.py").write_text("")
    first.close()
    second = WheelFolder.open(tmp_path, "w1")
    assert second.root == first.root
    assert second.has(a)
    assert not half.exists()
    second.close()


def test_two_workers_of_one_name_have_two_folders(tmp_path: Path) -> None:
    first, second = WheelFolder.open(tmp_path, "w1"), WheelFolder.open(tmp_path, "w1")
    assert first.root != second.root
    other = WheelFolder.open(tmp_path, "w1.2")
    assert other.root not in (first.root, second.root)
    for opened in (first, second, other):
        opened.close()


async def test_a_folder_is_free_again_when_its_worker_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from pyoco_server.worker.wheels.folder import WheelFolder\n"
        "folder = WheelFolder.open(Path(sys.argv[1]), 'w1'); print(folder.root, flush=True); time.sleep(60)"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    theirs = Path((await process.stdout.readline()).decode().strip())
    meanwhile = WheelFolder.open(tmp_path, "w1")
    assert meanwhile.root != theirs
    process.send_signal(signal.SIGKILL)
    await process.wait()
    ours = WheelFolder.open(tmp_path, "w1")
    assert ours.root == theirs
    meanwhile.close()
    ours.close()


def test_the_folders_of_workers_long_gone_are_removed(tmp_path: Path) -> None:
    long_ago = time.time() - ABANDONED_AFTER_SEC - 1
    gone, alive = WheelFolder.open(tmp_path, "gone"), WheelFolder.open(tmp_path, "alive")
    gone.close()
    for opened in (gone, alive):
        os.utime(opened.root / "lock", (long_ago, long_ago))
    WheelFolder.open(tmp_path, "recently").close()
    WheelFolder.open(tmp_path, "new").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "new", "recently"]
    alive.close()


def test_the_choice_leaves_out_what_does_not_fit_here() -> None:
    names = [
        "a-2-cp27-cp27m-win32.whl", "a-1.5-py3-none-any.whl", "a-1-py3-none-any.whl", "b-1-py3-none-any.whl",
    ]  # fmt: skip
    choice = choose([_wheel(name) for name in names], ["cpu"], sys_tags())
    assert [[str(wheel.version) for wheel in wheels] for wheels in choice.packages] == [["1.5", "1"], ["1"]]
    assert [wheel.name for wheel in choice.misfits] == names[:1]
    assert [wheel.name for wheel in choice.newest] == [names[1], names[3]]


def test_what_fails_is_tried_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("pyoco_server.worker.wheels.sync.time.monotonic", lambda: now)
    patience = RetrySchedule(10)
    pauses = []
    for _ in range(8):
        patience.note_failure("x", "why")
        before = now
        while patience.must_wait("x"):
            now += 10
        pauses.append(now - before)
    assert pauses == [20, 40, 80, 160, 320, 600, 600, 600]
    assert patience.reasons("x", "y") == "why"
    patience.note_success("x")
    assert patience.reasons("x", "y") is None


def test_a_process_forgets_what_it_imported_from_the_old_edition(
    folder: WheelFolder, fresh_module: Callable[[str], str]
) -> None:
    old = folder.edition([_kept(folder, "swapped", "1", {"swapped_ns/sub.py": ""})])
    new = folder.edition([_kept(folder, "swapped", "2")])
    swap_edition(None, old)
    assert fresh_module("swapped") == "1"
    __import__("swapped_ns.sub")
    swap_edition(old, new)
    assert fresh_module("swapped") == "2"
    assert "swapped_ns" not in sys.modules
    assert str(old) not in sys.path
    swap_edition(new, None)
    with pytest.raises(ModuleNotFoundError):
        fresh_module("swapped")


@pytest.fixture
def fresh_module() -> Callable[[str], str]:
    """The VERSION of a module, imported as a run would."""
    return lambda name: str(__import__(name).VERSION)


def _file(folder: Path, package: str, version: str, files: dict[str, str] | None = None) -> Path:
    file = folder / file_name(package, version)
    file.write_bytes(wheel_bytes(package, version, files))
    return file


def _wheel(name: str, nuid: str = "N") -> Wheel:
    said = check_wheel_name(name)
    return Wheel(name, said.package, said.version, (), nuid, 1, None, 0.0, said.build, said.fits)


def _kept(folder: WheelFolder, package: str, version: str, files: dict[str, str] | None = None) -> Wheel:
    """As if it had been installed."""
    wheel = _wheel(file_name(package, version), f"N{package}{version}")
    place = folder.new_place()
    for name, text in ({f"{package}.py": f"VERSION = {version!r}\n"} | (files or {})).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    folder.keep(wheel, place)
    return wheel
