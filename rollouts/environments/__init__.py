"""Built-in ones, one file each."""
