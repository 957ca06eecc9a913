"""A module that a traced function imports."""

NUMBER = 3.0
