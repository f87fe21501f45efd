"""The record store's benchmark: our store, its peers and a C loop, in one run."""
