"""What the `treaty` command runs on checkpoints."""
