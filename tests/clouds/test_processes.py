"""Several processes that save to one object store."""

from tests.clouds.conftest import BUCKET, Servers
from tests.multihost.directory_script import shared
from tests.multihost.test_directory import run
from tests.runtime.directory.states import Train, bits
from treaty.runtime.directory import inspect, restore, verify


def test_two_processes_write_their_own_shards_and_one_manifest(servers: Servers) -> None:
    urls = [f"{scheme}://{BUCKET}/processes" for scheme in servers]
    run(2, *(f"save:2:{url}" for url in urls), *(f"restore:2:{url}" for url in urls))
    for url in urls:
        assert inspect(url).metadata == {"processes": 2}
        assert bits(restore(url, Train)) == bits(shared(2))
        verify(url)
