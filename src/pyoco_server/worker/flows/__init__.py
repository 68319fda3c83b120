"""The flows of a worker: where one comes from, what parameters it takes, what a newer version changed,
reloading.
"""
