-- parked_failed: a fact that was parked failed again; it is due again, or not by itself any more.
-- Guarantee: runs in a transaction that has seen who leads the pair. Index: primary key.
update journal_parked set attempts = ?4, next_at = ?5, error = ?6
 where topic = ?1 and publisher = ?2 and position = ?3
