"""``crdtstream doctor``: facts for a bug report, without data and without secrets.

    program, machine    versions, limits, disks, clock          machine.py
    settings            of configuration files, secrets out     configured.py
    regions             status and INFO of nodes that answer    nodes.py
    folders             fsck of folders whose nodes are down    folders.py
    logs                names and times of the last events      logged.py
    left_out            what is missing, and why

Fields of a status are chosen, and a setting that is declared secret stays out.  Texts that a node
or a check made are cleaned besides (``cleaning.py``), because a sentence may quote a key.
"""
