-- mark: the highest position that can be seen or was let go, in a transaction that holds a
-- decision's locks.
-- Guarantee: facts that the locks exclude, up to it, are all visible, and later ones take a higher
-- number. Index: primary key.
select cast(greatest(coalesce((select max(position) from sendoff.journal_event), 0), g.position)
            as signed)
  from sendoff.journal_gone g
 where g.one = 1
