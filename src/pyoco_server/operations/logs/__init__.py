"""What runs print, as pages, as a file, as a search, and as it comes; and our own `notices` in it."""
