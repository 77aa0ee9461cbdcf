"""The tasks of the paper: their data, settings and tables, one folder each."""
