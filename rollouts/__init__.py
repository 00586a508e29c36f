"""How episodes come to be: environment, engine and strategy, driven by one loop."""
