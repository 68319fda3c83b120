"""What changes while a client watches: runs, lists, workers. Readers are notified and fetch; nothing piles
up.
"""
