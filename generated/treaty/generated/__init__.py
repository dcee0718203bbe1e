"""Generated code of the bundled schemas (`treaty.schema.library`); `treaty generate` writes it."""
