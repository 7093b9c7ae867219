-- inserted: the time of the last insert of this session, in microseconds, and the session's number.
-- Guarantee: reads no table. Index: none.
select timestampdiff(microsecond, '1970-01-01', @sendoff_at), connection_id()
