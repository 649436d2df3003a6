"""Plugins from outside: a good one works, broken ones are listed with their reason and harm nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from loader_helpers import RECORDS, evaluate, records, run_python

import hal

# --- a good plugin -------------------------------------------------------------------------------------------------------------------


def test_toy_plugin_is_used_by_device_string(toy_library: Path, tmp_path: Path) -> None:
    result = evaluate(
        """
        import json, numpy as np, hal
        x = hal.array(np.arange(6, dtype="f4"), device="toy:0")
        with hal.fallback("error"):
            y = hal.run("add", [x, x])                                   # the plugin's own kernel
            z = hal.run("add", [x, 1.5])
            try:
                hal.run("exp", [x])
                refused = False
            except hal.UnsupportedError as error:
                refused = "exp" in str(error)
        e = hal.run("exp", [x])                                          # by fallback, counted
        h = hal.run("exp", [hal.array(np.arange(6, dtype="f4"))])
        print(json.dumps({
            "device": str(y.device), "y": y.numpy().tolist(), "z": z.numpy().tolist(), "refused": refused, "exp_device": str(e.device),
            "same_bits": bool(np.array_equal(e.numpy().view("u4"), h.numpy().view("u4"))),
            "records": [[r["device"], r["op"], r["dtype"], r["calls"]] for r in hal.fallback_records()],
        }))
        """,
        tmp_path,
        HAL_PLUGIN_PATH=str(toy_library),
    )
    assert result["device"] == "toy:0" and result["exp_device"] == "toy:0"
    assert result["y"] == [0, 2, 4, 6, 8, 10] and result["z"] == [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert result["refused"] and result["same_bits"]
    assert result["records"] == [["toy:0", "exp", "f32", 1]]


def test_folder_on_the_search_path_and_unknown_device(toy_library: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    shutil.copy(toy_library, folder)
    (folder / "notes.txt").write_text("not a plugin")
    result = evaluate(
        """
        import json, hal
        texts = []
        for name in ("toi:0", "toy:7", "Toy", "toy:0?speed=9"):
            try:
                hal.device(name)
            except ValueError as error:
                texts.append(str(error))
        print(json.dumps({"texts": texts, "names": [d.name for d in hal.devices()], "host": hal.host_device().name}))
        """,
        tmp_path,
        HAL_PLUGIN_PATH=f"{folder}{os.pathsep}{tmp_path / 'missing'}",
    )
    assert "toy:0" in result["names"] and result["host"] in result["names"]
    assert "missing" in result["names"], "a path that doesn't exist is listed as unavailable"
    unknown, index, malformed, option = result["texts"]
    assert "'toi:0'" in unknown and "toy" in unknown
    assert "toy:7" in index and "1 device" in index
    assert "malformed" in malformed
    assert "toy knows no options" in option


def test_import_loads_nothing(toy_library: Path, tmp_path: Path) -> None:
    result = evaluate(
        """
        import json, sys, hal
        maps = open("/proc/self/maps").read()
        late = [m for m in ("numpy", "typer", "rich", "importlib.metadata") if m in sys.modules]
        print(json.dumps({"mapped": [l.split()[-1] for l in maps.splitlines() if "libhal_" in l], "late": late}))
        """,
        tmp_path,
        HAL_PLUGIN_PATH=str(toy_library),
    )
    assert result == {"mapped": [], "late": []}


def test_out_of_memory_of_a_plugin(toy_library: Path, tmp_path: Path) -> None:
    result = evaluate(
        """
        import json, hal
        kept = [hal.empty((1 << 20,), "f32", device="toy:0") for _ in range(10)]     # 40 of 64 MiB
        try:
            hal.empty((10 << 20,), "f32", device="toy:0")
            kind = ""
        except MemoryError as error:
            kind, text = type(error).__name__, str(error)
        del kept
        again = hal.empty((10 << 20,), "f32", device="toy:0").nbytes                 # the cache is given back and it fits
        print(json.dumps([kind, text, again]))
        """,
        tmp_path,
        HAL_PLUGIN_PATH=str(toy_library),
    )
    assert result[0] == "OutOfMemoryError" and "toy" in result[1] and result[2] == 40 << 20


# --- broken plugins ------------------------------------------------------------------------------------------------------------------

FAULTS = {
    "no_symbol": "doesn't export hal_plugin_entry",
    "wrong_major": "ABI",
    "truncated": "table stream: struct_size 27 doesn't reach slot query, required since ABI 0.1",
    "null_slot": "[plugin null_slot] table stream: slot create is NULL, required since ABI 0.1",
    "null_table": "table event is NULL",
    "bad_id": "'Bad-Id'",
    "null_api": "table is NULL",
    "polite": "driver libbroken.so.1 is missing",
    "no_devices": "no card on the bus",
    "abort": "crashed in init with SIGABRT",
    "segv": "crashed in init with SIGSEGV",
    "hang": "did not return from init within 1 s",
    "late_hang": "did not return from deinit within 1 s",
    "exit": "ended the process in init with exit status 0",
    "in_constructor": "crashed in dlopen with SIGABRT",
}


@pytest.fixture(scope="module")
def all_broken(broken_libraries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Records of one process that meets every fault at once, and then computes on the host device."""
    folder = tmp_path_factory.mktemp("all_broken")
    not_elf = folder / "not_elf.so"
    not_elf.write_text("just text\n" * 100)
    paths = [str(broken_libraries[f]) for f in (*FAULTS, "newer_minor", "older_table", "other_name")] + [str(not_elf)]
    code = RECORDS.replace("print", "y = hal.run('add', [hal.array([1.0], 'f32'), 1.0]).numpy().tolist(); assert y == [2.0]; print")
    found = evaluate(code, folder, HAL_PLUGIN_PATH=os.pathsep.join(paths), HAL_PROBE_TIMEOUT="1")
    return {record["id"]: record for record in found}


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_plugin_is_listed_with_its_reason(all_broken: dict[str, dict], fault: str) -> None:
    record = all_broken[fault]
    assert not record["available"]
    assert FAULTS[fault] in record["reason"]
    assert record["origin"].endswith(f"{fault}.so")


def test_not_a_library(all_broken: dict[str, dict]) -> None:
    assert not all_broken["not_elf"]["available"] and "not_elf.so" in all_broken["not_elf"]["reason"]


def test_host_device_is_unharmed(all_broken: dict[str, dict]) -> None:
    hosts = [record for record in all_broken.values() if record["is_host"]]
    assert len(hosts) == 1 and hosts[0]["available"]


@pytest.mark.parametrize("name", ["newer_minor", "older_table"])
def test_other_minor_versions_work(broken_libraries: dict[str, Path], tmp_path: Path, name: str) -> None:
    """A newer plugin's longer structs, and an older plugin's shorter ones with garbage behind their end."""
    code = f"""
    import hal, json
    x = hal.array([1.0, 2.0], "f32", device="{name}:0")
    with hal.fallback("error"):
        print(json.dumps(hal.run("add", [x, x]).numpy().tolist()))
    """
    assert evaluate(code, tmp_path, HAL_PLUGIN_PATH=str(broken_libraries[name])) == [2.0, 4.0]


def test_id_of_the_table_counts(all_broken: dict[str, dict]) -> None:
    assert "other_name" not in all_broken
    assert all_broken["other_name" if "other_name" in all_broken else "renamed"]["available"]


def test_device_string_of_an_unavailable_plugin_tells_why(broken_libraries: dict[str, Path], tmp_path: Path) -> None:
    done = run_python("import hal; hal.device('polite:0')", tmp_path, HAL_PLUGIN_PATH=str(broken_libraries["polite"]))
    assert done.returncode == 1 and "UnavailableError" in done.stderr and "driver libbroken.so.1 is missing" in done.stderr


# --- two plugins, one id -------------------------------------------------------------------------------------------------------------


def test_id_clash(toy_library: Path, broken_libraries: dict[str, Path], tmp_path: Path) -> None:
    twin = broken_libraries["twin"]
    path = f"{toy_library}{os.pathsep}{twin}"
    found = [r for r in evaluate(RECORDS, tmp_path, HAL_PLUGIN_PATH=path) if r["id"] == "toy"]
    assert len(found) == 2
    for record in found:
        assert not record["available"]
        assert str(toy_library) in record["reason"] and str(twin) in record["reason"] and "HAL_PLUGIN_TOY" in record["reason"]
    chosen = {r["origin"]: r for r in evaluate(RECORDS, tmp_path, HAL_PLUGIN_PATH=path, HAL_PLUGIN_TOY=str(twin)) if r["id"] == "toy"}
    assert chosen[str(twin)]["available"] and not chosen[str(toy_library)]["available"]
    assert "not chosen" in chosen[str(toy_library)]["reason"]


def test_two_hosts(broken_libraries: dict[str, Path], tmp_path: Path) -> None:
    done = run_python("import hal; hal.host_device()", tmp_path, HAL_PLUGIN_PATH=str(broken_libraries["second_host"]))
    assert done.returncode == 1 and "UnavailableError" in done.stderr
    assert "only one plugin may have the role HOST" in done.stderr and "second_host" in done.stderr


# --- the verdict cache ---------------------------------------------------------------------------------------------------------------


def verdicts(cache: Path) -> list[Path]:
    return sorted((cache / "hal" / "probe").iterdir())


def test_verdict_is_cached_and_follows_the_file(toy_library: Path, broken_libraries: dict[str, Path], tmp_path: Path) -> None:
    library = tmp_path / "libhal_abort.so"
    shutil.copy(broken_libraries["abort"], library)
    first = records(tmp_path, HAL_PLUGIN_PATH=str(library))["abort"]
    second = records(tmp_path, HAL_PLUGIN_PATH=str(library))["abort"]
    assert "from an earlier probe" not in first["reason"] and "from an earlier probe" in second["reason"]
    fresh = records(tmp_path, HAL_PLUGIN_PATH=str(library), HAL_PROBE_CACHE="refresh")["abort"]
    assert "from an earlier probe" not in fresh["reason"]
    library.unlink()
    shutil.copy(toy_library, library)  # repaired
    assert records(tmp_path, HAL_PLUGIN_PATH=str(library))["toy"]["available"]


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "other_path"])
def test_corrupt_cache(broken_libraries: dict[str, Path], tmp_path: Path, damage: str) -> None:
    """A damaged verdict, here one that would let a crashing library in, is not believed."""
    path = str(broken_libraries["abort"])
    records(tmp_path, HAL_PLUGIN_PATH=path)
    of_library = [file for file in verdicts(tmp_path) if path in file.read_text()]
    assert of_library
    for file in of_library:
        text = file.read_text().replace("\nok 0", "\nok 1")
        damaged = {
            "empty": "",
            "cut": text[: text.index("\nend")],
            "garbage": os.urandom(4096).decode("latin-1"),
            "other_path": text.replace("\npath ", "\npath /elsewhere"),
        }[damage]
        file.write_text(damaged)
    record = records(tmp_path, HAL_PLUGIN_PATH=path)["abort"]
    assert not record["available"] and "crashed in init" in record["reason"]


def test_unusable_cache(toy_library: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be")
    assert records(blocked, HAL_PLUGIN_PATH=str(toy_library))["toy"]["available"]
    assert blocked.read_text() == "a file where a folder should be"


# --- threads and forks ---------------------------------------------------------------------------------------------------------------


def test_thread_settings(tmp_path: Path) -> None:
    result = evaluate(
        """
        import json, hal
        before = hal.get_num_threads()
        hal.set_num_threads(3)
        errors = 0
        for bad in (0, -1, 100000):
            try:
                hal.set_num_threads(bad)
            except ValueError:
                errors += 1
        print(json.dumps([before, hal.get_num_threads(), errors]))
        """,
        tmp_path,
        HAL_NUM_THREADS="2",
    )
    assert result == [2, 3, 3]


def test_forked_child_works(tmp_path: Path) -> None:
    code = """
    import os, json, numpy as np, hal
    a = np.ones((256, 256), "f4")
    def work():
        x = hal.array(a)
        return float(hal.run("matmul", [x, x]).numpy().sum())
    parent = work()
    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            ok = work() == parent
        except hal.Error:
            ok = True   # a clear error is fine too; hanging is not
        finally:
            os._exit(0 if ok else 1)
    status = os.waitpid(pid, 0)[1]
    print(json.dumps([os.waitstatus_to_exitcode(status), work() == parent]))
    """
    assert evaluate(code, tmp_path) == [0, True]


def test_a_load_that_killed_the_process_is_probed_again(tmp_path: Path) -> None:
    """A good verdict is cached by file; what the library does may depend on more. It kills one process, not two."""
    source = Path(__file__).parent.parent / "plugins" / "toy" / "toy.c"
    moody = tmp_path / "moody.c"
    moody.write_text(
        f'#define hal_plugin_entry toy_entry\n#include "{source}"\n#undef hal_plugin_entry\n'
        "HAL_EXPORT hal_status hal_plugin_entry(const hal_host_api *host, const hal_plugin_api **out) {\n"
        '  if (getenv("MOODY_CRASH") != NULL) abort();\n  return toy_entry(host, out);\n}\n'
    )
    library = tmp_path / "libhal_moody.so"
    include = [f"-I{folder}" for folder in (hal.get_include(), source.parent)]
    subprocess.run([shutil.which("cc") or "gcc", "-std=c11", "-shared", "-fPIC", *include, str(moody), "-o", str(library)], check=True)
    paths = {"HAL_PLUGIN_PATH": str(library)}
    assert records(tmp_path, **paths)["toy"]["available"]
    assert run_python(RECORDS, tmp_path, MOODY_CRASH="1", **paths).returncode != 0, "the cached verdict was believed, once"
    found = records(tmp_path, MOODY_CRASH="1", **paths)
    bad = [r for r in found.values() if r["origin"] == str(library)]
    assert len(bad) == 1 and not bad[0]["available"] and "SIGABRT" in bad[0]["reason"].upper().replace("ABORTED", "SIGABRT"), found
    assert any(r["is_host"] and r["available"] for r in found.values())
