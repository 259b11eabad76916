"""A JIT-compiling deep-learning framework."""
