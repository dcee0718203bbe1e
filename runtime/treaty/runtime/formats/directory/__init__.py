"""Directories: arrays in TensorStore, small leaves in MessagePack, and a manifest that commits them."""

from treaty.runtime.formats.shared.format import Format, later

FORMAT = Format(
    name="treaty",
    suffixes=(),
    is_at=later(f"{__name__}.recognise:is_at"),
    look=later(f"{__name__}.recognise:look"),
    open=later(f"{__name__}.source:open_source"),
    write=later(f"{__name__}.save:write_tree"),
    takes=frozenset({"base", "compress", "metadata", "timeout"}),
    keeps_schema=True,
    shared=True,
    owns=later(f"{__name__}.recognise:owns"),
    write_later=later(f"{__name__}.save:write_later"),
    inspect=later(f"{__name__}.inspect:inspect_known"),
    verify=later(f"{__name__}.verify:verify_known"),
    remove=later(f"{__name__}.recognise:remove"),
    step_path=later(f"{__name__}.steps:step_path"),
)
