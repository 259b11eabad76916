"""The functions of `jitgrad` and the methods of `Tensor`, one theme to a module; `registry` publishes them."""
