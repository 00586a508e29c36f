"""What it means to compact a context. Text and token counts only: knows no model and no trainer."""
