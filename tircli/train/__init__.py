"""Training on trajectories: what is trained on, in which batches, by which loss."""
