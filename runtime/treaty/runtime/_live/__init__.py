"""Trees that a program has, of any framework, to instances of state classes and back."""
