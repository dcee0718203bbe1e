"""A progress bar on a terminal, and nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str, total: int, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """Gives the function to call with bytes done. `wanted` None: where standard error is a terminal."""
    if not (_is_terminal() if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    from treaty.schema._showing import size_text

    class Speed(ProgressColumn):
        """Rich's own has units of powers of ten, beside sizes in powers of two."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{size_text(int(speed))}/s", style="progress.data.speed")

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), Speed())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()  # None in a program that was started without one
    except ValueError:  # it was closed since
        return False
