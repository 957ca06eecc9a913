"""Programs over chunks of rows: rounds of partial results, their sums, and what is made of them."""
