"""Models and tokenizers: loaded, converted, or built on the spot."""
