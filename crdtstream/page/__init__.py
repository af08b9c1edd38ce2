"""What pages of figures are made of: markup, tables, plots, and how they look.

A page is one file: complete in itself, without scripts, light or dark as its reader is.
"""
