"""Plans run by several processes, one per device: the ranks of a process group of torch.distributed."""
