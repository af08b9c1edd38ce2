"""Certificates of regions, operators, readers and clients: names, files, checks, an authority.

``names``, ``certificate``, ``chain``, ``checking`` and ``authority`` are pure: bytes and times are
arguments.  Only ``files`` and ``node_files`` read and write; ``watching`` keeps those of a running
node current.
"""
