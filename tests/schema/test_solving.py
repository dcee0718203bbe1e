import pytest

from treaty.schema.dims import evaluate, parse_expr
from treaty.schema.solving import solve

ASSIGNMENTS = (
    {"d_model": 6, "n_heads": 3, "vocab": 13},
    {"d_model": 20, "n_heads": 5, "vocab": 17},
    {"d_model": 42, "n_heads": 7, "vocab": 29},
    {"d_model": 42, "n_heads": 2, "vocab": 11},
)


@pytest.mark.parametrize(
    "text",
    [
        "7",
        "d_model",
        "vocab",
        "4*d_model",
        "d_model+1",
        "3*vocab-2",
        "d_model*n_heads",
        "3*d_model*n_heads",
        "d_model//n_heads",
        "d_model+vocab",
        "d_model-n_heads",
        "vocab//2",
        "2*d_model+3*vocab",
        "d_model*n_heads+vocab",
        "d_model*d_model",
    ],
)
def test_finds_the_expression_that_was_used(text: str) -> None:
    sizes = [evaluate(parse_expr(text), given) or 0 for given in ASSIGNMENTS]
    found = solve(ASSIGNMENTS, sizes)
    assert found is not None
    assert str(found).replace("(", "").replace(")", "") == text


def test_a_size_that_never_varies_is_a_number() -> None:
    assert str(solve(({"d": 2}, {"d": 3}), [2, 2])) == "2"


def test_sizes_that_follow_nothing_have_no_expression() -> None:
    assert solve(ASSIGNMENTS, [1, 2, 1, 5]) is None


def test_what_is_found_gives_all_sizes_that_were_seen() -> None:
    for sizes in ([6, 20, 42, 41], [3, 5, 7, 3], [19, 37, 71, 53]):
        found = solve(ASSIGNMENTS, sizes)
        assert found is None or [evaluate(found, given) for given in ASSIGNMENTS] == sizes
