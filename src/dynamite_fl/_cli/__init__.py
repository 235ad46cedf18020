"""The command ``dynamite``: one file per command."""
