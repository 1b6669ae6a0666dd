"""The command `kclient`, mostly in this process and on the embedded broker."""
