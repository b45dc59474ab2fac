"""Oracle labels as a folder that others can load, check and cite."""
