"""How the policy learns: mid-training, credit, and the trainer on top of TRL."""
