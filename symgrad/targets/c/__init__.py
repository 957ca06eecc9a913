"""The target C: kernels that compute whole parts of a program, and the extension modules that hold them."""
