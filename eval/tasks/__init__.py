"""Evaluation tasks: one file each, generators of samples of any length and loaders of public files."""
