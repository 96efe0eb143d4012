"""Files that a model's process leaves for the user, and which of them are kept."""
