"""What the settings of the papers share, an environment a file; no configurations themselves."""
