-- lock_entry: the part of `lock` that leaves out rows of which somebody has locked the entry in the index
-- by which they are due, and not the row: to change it would wait. Index: outbox_event_due.
straight_join sendoff.outbox_event d force index (outbox_event_due)
           on d.due_at = e.due_at and d.seq = e.seq
