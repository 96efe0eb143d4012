"""The user's file with the changes that make it right, judged again."""
