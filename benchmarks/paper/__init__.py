"""Regret: on the problems of the paper, on beds of other kinds, and beside other libraries."""
