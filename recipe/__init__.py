"""How the policy learns."""

import os

# OpenMP threads that wait spin on their core; where another program wants that core, every parallel region waits for it
# (a training step took five times as long beside one busy process). Read once, when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
