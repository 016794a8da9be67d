"""Views, and writes to what views share."""
