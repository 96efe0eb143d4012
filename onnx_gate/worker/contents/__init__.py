"""What is in a file, read without loading it: none of these modules imports, builds or runs what a file names."""
