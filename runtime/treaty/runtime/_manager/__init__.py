"""A directory of steps and its manager: when to save, what to keep, where to go on."""
