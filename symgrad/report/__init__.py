"""What the compiler did with a program, and where its time goes."""
