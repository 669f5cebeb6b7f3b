"""Ready templates: repaired templates that ship with the package, each with its record."""
