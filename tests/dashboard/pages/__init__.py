"""Journeys on the pages other than that of one run."""
