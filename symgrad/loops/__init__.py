"""How a program is run: which of its axes are cut into blocks of rows, and what such a block keeps where."""
