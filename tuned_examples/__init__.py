"""Python configurations that learn, one a file."""
