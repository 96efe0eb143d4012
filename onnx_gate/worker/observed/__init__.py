"""What is seen while code of the user runs: files, names and variables that it asks for, and weights that it draws."""
