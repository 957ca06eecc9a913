"""Costs on a usual machine: the one table that estimates of time go by.

Nanoseconds, of x86-64 servers with two cores and CPython; ``python benchmarks/costs.py`` measures another machine. The
figures do not follow the machine at hand, so that a program has the same source wherever it is compiled; rough ones are
enough to tell which of two forms is faster. What an operator takes for a number is in its entry: `Op.nanoseconds`.
"""

# ---- NumPy, called from Python
CALL = 800.0  # a call, with the views and names around it
LEAST_CALL = 400.0  # a function of a few numbers
LOOP = 8.0  # starting an inner loop, where axes are short and operands do not lie alike
ALIGNED_LOOP = 6.0  # where they do
REDUCING_LOOP = 15.0  # where it sums
DOT = 7.0  # and where BLAS multiplies two rows
MATRIX = 100.0  # a small matrix of a stack, for which NumPy calls BLAS

# ---- Python
OPERATION = 40.0  # an operation on Python's floats
TAKE = 80.0  # reading an element of an array as one
STORE = 120.0  # moving one through a list to an array, and an element back
STACK = 50.0  # keeping a value of an iteration in a stack
ROWS = 150.0  # taking a row of a stack, in a loop and in its pullback
HAND = 100_000.0  # handing work to a thread

# ---- a number of eight bytes
NEAR = 0.5  # read or written while its array is in the cache
COPIED = 1.0  # copied, or read against its order
WORD = 0.13  # read or written where it is not in the cache; several threads take as long
FAR = 0.27  # written to where no cache reaches, besides
FRESH = 4.0  # in memory that the system gives anew
KEPT = 6.25  # stored in an iteration and read in its pullback
FLOP = 1 / 30  # multiplied in a product of large matrices, on one core
