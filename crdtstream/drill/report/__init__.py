"""What a finished drill comes to, for people and programs; and how a running one goes.

    Report ─┬─> files      JSON, and back
            ├─> junit      JUnit XML, for CI
            ├─> page       one HTML page
            ├─> terminal   tables
            └─> compare    two of them: what became better, and what worse

    samples and marks of a running drill ──> live

Nothing here judges: verdict, checks and findings stand in the report.
"""
