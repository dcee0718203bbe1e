"""The way out, the same for every format, until one takes over: a state that is checked, as a state dict."""
