"""Runs methods over sets of graphs, keeps every result, and prints the tables and figures of REGAL's paper."""
