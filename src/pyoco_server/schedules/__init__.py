"""Schedules by values. Pure: the current time is an argument.

`timing` finds the planned instants (occurrences) · `record` is the stored form · `decide` says what happens
to those that are due · `transitions` changes the record
"""
