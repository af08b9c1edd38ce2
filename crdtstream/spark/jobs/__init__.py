"""Programs that read and write streams with Spark: each a plain function of a session and options.

From spark-submit: ``archive(make_session("archive"), ArchiveOptions(...))``; from a shell:
``crdtstream pipeline archive``.
"""
