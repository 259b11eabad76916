"""The loop-level IR: what a kernel is, its text, its rules, its interpreter."""
