-- hold: locks anchors, as journal_lock does; fails (1690) if some are missing, or if this session
-- does not count one by one, as journal_gate does. Index: those of the terms.
set @sendoff_gate = exp(if(:anchors = :count and @@session.auto_increment_increment = 1, 0, 9999))
