"""The root of every error Treaty raises on purpose."""


class TreatyError(Exception):
    """Root of all errors that Treaty raises on purpose."""


class SchemaError(TreatyError):
    """A declaration cannot be compiled. Holds every problem found, one line each."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        TreatyError.__init__(self, *problems)  # what it is made from, so that it can be pickled

    def __str__(self) -> str:
        return "\n".join(self.problems)


class NewerFormatError(TreatyError):
    """Something was written by a newer Treaty, and nothing is wrong with it."""

    def __init__(self, what: str, found: str) -> None:
        self.what, self.found = what, found
        TreatyError.__init__(self, what, found)

    def __str__(self) -> str:
        return f"{self.what}: written by a newer Treaty ({self.found}); upgrade treaty"


class NewerSchemaError(SchemaError, NewerFormatError):
    """The same of a schema in JSON form."""

    def __init__(self, found: str) -> None:
        NewerFormatError.__init__(self, "schema", found)
        self.args = (found,)
        self.problems = (str(self),)

    __str__ = NewerFormatError.__str__
