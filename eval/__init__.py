"""What a policy can do: any policy, any way to compact, any length."""
