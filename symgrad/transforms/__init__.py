"""What users differentiate with: grad and its family, by what, and graphs by hand."""
