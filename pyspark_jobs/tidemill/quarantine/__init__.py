"""Rows in quarantine: their columns, why they are there, and files of them."""
