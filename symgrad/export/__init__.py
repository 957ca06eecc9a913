"""Files that last: arguments to try them with, and the check of a file that somebody has edited."""
