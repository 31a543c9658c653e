"""The experiments and figures of the paper, a module for each."""
