"""Files that only their owner may read: passwords, users, folders; and marks of passwords."""
