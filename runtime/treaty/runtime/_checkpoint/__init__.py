"""What callers do with checkpoints: save, restore, inspect, verify, remove. Each asks the table of formats who does it."""
