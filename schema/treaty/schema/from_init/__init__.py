"""`FromInit`: the types of an optimizer's state, from its own init. Imports JAX where it is used, and only there."""
