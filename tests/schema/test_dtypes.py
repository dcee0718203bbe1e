"""The dtype table against the systems it names."""

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
import tensorstore

from treaty.schema.dtypes import BY_NAME, TABLE, DType, key_impl


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_spelling_is_the_systems_own(row: DType) -> None:
    assert row.numpy.name == row.name
    if row.jaxtyping is not None:
        assert row.name in getattr(jaxtyping, row.jaxtyping).dtypes
    if row.tensorstore is not None:
        assert tensorstore.dtype(row.tensorstore).numpy_dtype == row.numpy
    else:
        with pytest.raises((ValueError, TypeError)):
            tensorstore.dtype(row.name)


def test_every_dtype_that_jax_names_is_in_the_table() -> None:
    scalars = {name for name in dir(jnp) if isinstance(getattr(jnp, name), type(jnp.float32))}
    named = {np.dtype(getattr(jnp, name)).name for name in scalars}
    assert named <= set(BY_NAME)


def test_every_single_dtype_of_jaxtyping_is_in_the_table() -> None:
    single = {
        name
        for name in dir(jaxtyping)
        if isinstance(getattr(getattr(jaxtyping, name), "dtypes", None), tuple)
        and len(getattr(jaxtyping, name).dtypes) == 1
    }
    assert single - {"Key"} == {row.jaxtyping for row in TABLE if row.jaxtyping} - {"Bool"}


def test_key_implementations() -> None:
    assert key_impl("key<rbg>") == "rbg"
    assert key_impl("key<nothing>") is None
    assert key_impl("float32") is None
