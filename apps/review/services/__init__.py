"""Changes to the review queue, one transaction each."""
