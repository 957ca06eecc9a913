"""Control flow: passes that fuse, split, hoist and simplify loops and branches."""
