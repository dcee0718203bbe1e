"""Where a manager's steps lie: a directory of this machine, or a prefix of an object store."""

from treaty.runtime._manager.local import LocalSteps
from treaty.runtime._manager.steps import Steps
from treaty.runtime._storage.paths import AnyPath, path_or_url


def steps_at(directory: AnyPath) -> Steps:
    path, is_url = path_or_url(directory)
    if is_url:
        from treaty.runtime._manager.cloud import CloudSteps

        return CloudSteps(path)
    return LocalSteps(path)
