"""The root of every error Treaty raises on purpose."""


class TreatyError(Exception):
    """Root of all errors that Treaty raises on purpose."""


class SchemaError(TreatyError):
    """A declaration cannot be compiled. Holds every problem found, one line each."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))
