"""The n-slack dual for (14): every sample keeps its own planes."""
