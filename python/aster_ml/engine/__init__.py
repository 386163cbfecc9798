"""Capture and replay, under tinygrad's path."""
