"""The parent's side of workers: start them, watch them, hear them, end them."""
