"""Values and their state dicts: arrays and scalars, checks and explanations, the codecs of classes."""
