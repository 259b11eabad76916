"""PyTorch's place for `parameters_to_vector` and `vector_to_parameters`."""

from .vector import parameters_to_vector, vector_to_parameters

__all__ = ["parameters_to_vector", "vector_to_parameters"]
