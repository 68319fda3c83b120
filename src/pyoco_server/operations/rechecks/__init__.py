"""What can be done with rechecks: accept and start them, judge what came of them, and look at it all."""
