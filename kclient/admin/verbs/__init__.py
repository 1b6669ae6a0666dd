"""The verbs of the admin client by family: arguments in, operations run, results out."""
