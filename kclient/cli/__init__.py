"""The command `kclient`: one module per noun."""
