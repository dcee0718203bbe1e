"""State dicts from one revision of a class to another: plans carried out, defaults, the histories of classes."""
