-- doing: what a session does at this moment; NULL where it does nothing, and no row where this
-- user may not know.
-- Guarantee: the text may hold values, so it is asked for by itself and by nothing else. Index: none.
select left(p.info, 500) from information_schema.processlist p where p.id = :session
