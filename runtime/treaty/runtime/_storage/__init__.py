"""Files, object stores and memory: replacement at once, locks, permissions, system calls."""
