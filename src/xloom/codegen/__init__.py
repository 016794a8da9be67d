"""What every backend needs of an HLO module: fused, scheduled and allocated loop nests, with no target in them."""
