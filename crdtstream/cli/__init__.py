"""The programs that people start: ``crdtstream`` and ``rladmin``."""
