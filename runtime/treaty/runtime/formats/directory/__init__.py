"""Directories: arrays in TensorStore, small leaves in MessagePack, and a manifest that commits them."""
