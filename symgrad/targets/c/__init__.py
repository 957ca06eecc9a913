"""The target C: kernels that compute parts of a program, and the extension modules that contain them."""
