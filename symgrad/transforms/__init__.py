"""Transforms: grad and its family, the choice of variables, and graphs by hand."""
