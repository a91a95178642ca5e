"""PyTorch's flight recorder: the last collectives of each rank, as its dumps hold them."""
