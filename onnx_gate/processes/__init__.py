"""The parent's side of workers: it starts them, watches them, reads their reports and ends them."""
