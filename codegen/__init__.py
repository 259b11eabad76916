"""Code generation: from a graph to native code."""
