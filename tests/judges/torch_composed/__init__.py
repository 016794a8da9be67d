"""Random torch programs, through both doors."""
