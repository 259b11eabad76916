"""The graph IR: types, ops, graphs, passes and the gradient transform. Depends on NumPy and networkx only."""
