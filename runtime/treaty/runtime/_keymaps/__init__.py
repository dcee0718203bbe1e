"""Key maps applied: other people's names and layouts to fields, and back."""
