"""Reports of the compiler's work on a program, and of the time of its lines."""
