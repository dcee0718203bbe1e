"""A checkpoint, two of them, or the steps of a run, as one page to look at."""
