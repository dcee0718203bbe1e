"""The root of every error Treaty raises on purpose."""


class TreatyError(Exception):
    """Root of all errors that Treaty raises on purpose."""


class SchemaError(TreatyError):
    """A declaration cannot be compiled. Holds every problem found, one line each."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class NewerFormatError(TreatyError):
    """Something was written by a newer Treaty, and nothing is wrong with it."""

    def __init__(self, what: str, found: str) -> None:
        super().__init__(f"{what}: written by a newer Treaty ({found}); upgrade treaty")


class NewerSchemaError(SchemaError, NewerFormatError):
    """The same of a schema in JSON form."""

    def __init__(self, found: str) -> None:
        NewerFormatError.__init__(self, "schema", found)
        self.problems = self.args
