"""What people read, whoever shows it: alike leaves as one, and nothing that is not seen."""
