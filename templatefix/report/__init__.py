"""Reports for people and machines. They know value types only: nothing here checks anything."""
