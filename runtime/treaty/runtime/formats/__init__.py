"""One module per storage format; each turns state dicts into bytes or files and back."""
