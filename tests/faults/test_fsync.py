"""What a power cut may lose by the letter of POSIX, which no file system here would: a save syncs all, and once."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.places import NEW, NEXT, Trial, both
from tests.faults.ptrace import COMMITTED, Call
from tests.faults.replacing import CONVERTED, SAFETENSORS, Replacement
from tests.faults.saver import How, Saver


@pytest.mark.parametrize(("how", "old"), [("save", False), ("save", True), ("linked", True), ("base and linked", True)])
def test_all_that_a_manifest_names_is_on_disk_before_it_is_renamed(
    how: How, old: bool, saver: Saver, tmp_path: Path
) -> None:
    trial = Trial(saver, tmp_path, how, old)
    calls = trial.save(NEW).calls
    assert ("linked" in how) == any(call.name == "linkat" for call in calls)
    commit = trial.committed(calls)
    assert commit is not None
    temporary, manifest = calls[commit].paths
    assert unsynced(calls[:commit]) == {f"{temporary} in {trial.path}"}
    assert unsynced(calls[: commit + 2]) == set()
    assert calls[commit + 1] == Call("fsync", (os.path.dirname(manifest),))


@pytest.mark.parametrize(("old", "new"), [*SAFETENSORS, *CONVERTED])
def test_all_of_a_replacement_is_on_disk_before_it_takes_its_place(
    old: How, new: How, saver: Saver, tmp_path: Path
) -> None:
    one = Replacement(saver, tmp_path, old, new)
    calls = one.save().calls
    places = {str(one.path), f"{one.path}.index.json"}
    commit = next(i for i, call in enumerate(calls) if call.name.startswith("rename") and places & set(call.paths[1:]))
    folder, made = str(one.path.parent), calls[commit].paths[0]
    left = {line for line in unsynced(calls[:commit]) if "/lock in " not in line}
    assert left <= {f"{made} in {os.path.dirname(made)}", f"{os.path.dirname(made)} in {folder}"}
    removals = [i for i, call in enumerate(calls) if i > commit and call.name.startswith(("unlink", "rmdir"))]
    assert Call("fsync", (folder,)) in calls[commit : removals[0]]


@both
def test_files_and_directories_are_synced_no_more_often_than_they_must(old: bool, saver: Saver, tmp_path: Path) -> None:
    calls = Trial(saver, tmp_path, "save", old).save(NEW).calls
    made = {call.paths[-1] for call in calls if call.name in ("mkdir", "create")}
    files = {call.paths[-1] for call in calls if call.name == "create"}
    folders = {os.path.dirname(path) for path in made}
    assert sum(call.name == "fsync" for call in calls) == len(files) + len(folders) + 1  # the checkpoint's own: twice


@pytest.mark.parametrize("how", ["linked", "base and linked"])
def test_linked_files_are_synced_unless_this_process_did_it_before(how: How, saver: Saver, tmp_path: Path) -> None:
    calls = Trial(saver, tmp_path, how, old=True).save(NEW).calls
    linked = {call.paths[-1] for call in calls if call.name == "linkat"}
    synced = {call.paths[-1] for call in calls if call.name == "fsync"}
    assert linked
    assert linked & synced == (linked if how == "linked" else set())


def test_nothing_is_removed_that_a_manifest_on_disk_may_name(saver: Saver, tmp_path: Path) -> None:
    """A save is killed when the manifest is renamed, but not on disk; the next one finds the data of the old one."""
    trial = Trial(saver, tmp_path, "save", old=True)
    first = trial.save(NEW, kill_at=COMMITTED).made
    assert first[-1].name == "rename"
    second = trial.save(NEXT).calls
    removal = next(i for i, call in enumerate(second) if call.name == "unlinkat")
    assert unsynced([*first, *second[:removal]]) == set()


def test_the_check_sees_what_is_not_synced() -> None:
    calls = [Call("mkdir", ("/a/b",)), Call("create", ("/a/b/c",)), Call("writev", ("/a/b/c",)), Call("fsync", ("/a",))]
    assert unsynced(calls) == {"/a/b/c in /a/b", "/a/b/c"}
    calls += [Call("rename", ("/a/b/c", "/a/b/d")), Call("fsync", ("/a/b",))]
    assert unsynced(calls) == {"/a/b/d"}
    assert unsynced([*calls, Call("fsync", ("/a/b/d",))]) == set()
    link = Call("linkat", ("/a/b/d", "/a/b/e"))
    assert unsynced([*calls, link, Call("fsync", ("/a/b",))]) == {"/a/b/d", "/a/b/e"}
    assert unsynced([*calls, Call("fsync", ("/a/b/d",)), link, Call("fsync", ("/a/b",))]) == set()


def unsynced(calls: Sequence[Call]) -> set[str]:
    """Files with contents, and names in directories, that a power cut after these calls may lose."""
    contents: set[str] = set()
    names: set[tuple[str, str]] = set()  # directory, what was entered there
    known: set[str] = set()
    synced: set[str] = set()  # files whose contents are known to last
    for call in calls:
        path = call.paths[-1]
        if call.name in ("create", "mkdir", "rename", "link", "linkat") and path not in known:
            names.add((os.path.dirname(path), path))
            known.add(path)
        if call.name == "rename":
            source = call.paths[0]
            names.discard((os.path.dirname(source), source))
            known.discard(source)
            if source in contents:
                contents.remove(source)
                contents.add(path)
            synced.discard(path)
            if source in synced:
                synced.add(path)
        elif call.name in ("link", "linkat"):
            if call.paths[0] not in synced:
                contents.add(path)  # who knows whether it was synced under its first name
        elif call.name in ("write", "writev", "pwrite64", "fallocate", "ftruncate"):
            contents.add(path)
            synced.discard(path)
        elif call.name in ("fsync", "fdatasync"):
            contents.discard(path)
            synced.add(path)
            names = {(folder, name) for folder, name in names if folder != path}
    return contents | {f"{name} in {folder}" for folder, name in names}
