"""The episode viewer: episodes in, one HTML file out that needs nothing else."""
