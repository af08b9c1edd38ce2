"""Elements of pages of figures: markup, tables, plots, and their style.

A page is one file: complete in itself, without scripts, light or dark as its reader prefers.
"""
