"""What compilations keep for later ones: in memory, and on disk where no other user can write."""
