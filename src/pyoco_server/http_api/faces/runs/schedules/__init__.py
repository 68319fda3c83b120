"""`/schedules` of the runs face."""
