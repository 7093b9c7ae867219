-- state: how this server counts, whether it can be written to, the highest position, and up to
-- where facts were let go.
-- Guarantee: after a reading, it knows of everything that was gone by then. Index: primary key.
select cast(@@session.auto_increment_increment as signed), cast(@@global.read_only as char),
       cast(greatest(coalesce((select max(position) from sendoff.journal_event), 0), g.position)
            as signed),
       cast(g.position as signed)
  from sendoff.journal_gone g
 where g.one = 1
