"""Reports on drills, for people and programs: on finished ones, and on the course of a running one.

    Report ─┬─> files      JSON, and back
            ├─> junit      JUnit XML, for CI
            ├─> page       one HTML page
            ├─> terminal   tables
            └─> compare    two of them: what became better, and what worse

    samples and marks of a running drill ──> live

No report judges: it has the verdict, the checks and the findings.
"""
