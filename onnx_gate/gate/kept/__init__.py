"""What a model's process leaves for the user, and what of it is kept."""
