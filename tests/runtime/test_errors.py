"""Errors as values: they survive pickle, as they go from one process to another."""

import pickle

import pytest

from treaty.runtime import _errors as errors
from treaty.runtime._restore.select import MissingPartError
from treaty.schema import SchemaError, TreatyError
from treaty.schema._errors import NewerFormatError, NewerSchemaError
from treaty.schema.evolution.history import OtherArgumentsError
from treaty.schema.evolution.inverse import NoInverseError
from treaty.schema.evolution.lock_json import NewerLockError

MISMATCH = errors.Mismatch("int", "str 'a'", ("x", 3))
ERRORS: list[TreatyError] = [
    errors.StateMismatchError([MISMATCH, MISMATCH], ["pass cast={}"]),
    errors.KeyMapError(["expected one rule, got none", "and more"]),
    errors.ConversionError(["expected 1, got 2"]),
    errors.MissingCheckpointError("expected a checkpoint at x, got nothing"),
    errors.storage_error("cannot write x: No space left on device", 28, "x"),
    errors.storage_error("cannot write x"),
    SchemaError("a", "b"),
    NewerFormatError("x.msgpack", "version 9"),
    NewerSchemaError("version 9"),
    NewerLockError("a.lock", "version 9"),
    NoInverseError("a", "b"),
    *(
        kind("expected a, got b")
        for kind in (
            errors.CorruptCheckpointError,
            errors.IncompleteCheckpointError,
            errors.LeafError,
            errors.CodecError,
            errors.InvalidArgumentError,
            errors.MissingFunctionError,
            errors.MigrationError,
            errors.UnaddressableArrayError,
            errors.UnwritableArrayError,
            errors.StateKeyError,
            MissingPartError,
            OtherArgumentsError,
        )
    ),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickle(error: TreatyError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)


def test_the_text_of_errors_that_hold_more_than_that() -> None:
    texts = [str(error) for error in ERRORS[:3]] + [str(error) for error in ERRORS[6:10]]
    assert texts == [
        "expected int, got str 'a' at $.x[3]\nexpected int, got str 'a' at $.x[3]\npass cast={}",
        "expected one rule, got none\nand more",
        "expected 1, got 2",
        "a\nb",
        "x.msgpack: written by a newer Treaty (version 9); upgrade treaty",
        "schema: written by a newer Treaty (version 9); upgrade treaty",
        "a.lock: written by a newer Treaty (version 9); upgrade treaty",
    ]
    for error in ERRORS[8:10]:
        assert vars(error)["problems"] == (str(error),)
