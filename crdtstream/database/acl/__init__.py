"""Users of a region and their rights (ACL), as Redis has them; no clock, no files, no chance.

    user alice on #9f86… ~orders:* resetchannels -@all +@read (%W~log:* -@all +xadd)
         │     │  │    └─ root selector ──────────────────────┘ └ a further selector ┘
         name  on passwords, as SHA-256

    known.py      commands and categories that a rule may name
    touched.py    the keys and channels of a request
    selectors.py  one set of rights, and the check of a request against it
    users.py      a user; all users, and who logs in
    rules.py      what one rule changes
    lines.py      users as lines of an aclfile
    log.py        what was refused

A request is allowed if one selector allows all of it.  Users belong to a region and are not
replicated: a merge of two changes would be a right too many, or a lock-out.
"""
