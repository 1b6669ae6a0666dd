"""How `make test` runs the tests: see `__main__`."""
