"""Reports of drills and scenarios, opened from a folder and replayed in a browser.

    folder ──> reports in it ──> timeline, steps: as of each moment ──> pages (map, tables, events)

No node takes part: figures are those of the report, and text is made where the console makes it.
"""
