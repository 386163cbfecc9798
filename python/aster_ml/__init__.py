"""aster_ml: lazy tensors, gradients and captured programs."""
