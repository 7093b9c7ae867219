-- Which rows are there, pending, and held by this very token.
-- Guarantee: sees committed rows only; reads no payload.
-- Index: primary key. Tokens, and whether a row is pending (0 or 2), are asked for in a way that no
-- index serves: rows of one batch share their due time and would all be looked at for each of them,
-- and in many partitions all pending rows would rather be read than one key be probed in each.

-- confirm: which.
--
-- confirm_keys: which, by their numbers, and what lies below them in their keys: the first $3 events that are
-- owed a delivery, in order; and whether the key is parked.
-- Guarantee: whatever had committed when a row was written is seen. Index: outbox_event_key; primary key of the
-- keys.
-- text confirm, confirm_keys
select e.event_id
       , e.seq,                                                               -- [confirm_keys]
       array(select p.event_id                                                -- [confirm_keys]
               from sendoff.outbox_event p                                    -- [confirm_keys]
              where p.ordering_key collate "C" = e.ordering_key               -- [confirm_keys]
                and p.ordering_key is not null and p.status in (0, 2)         -- [confirm_keys]
                and p.seq < e.seq                                             -- [confirm_keys]
              order by p.seq                                                  -- [confirm_keys]
              limit $3::bigint) as below,                                     -- [confirm_keys]
       exists (select from sendoff.outbox_key k                               -- [confirm_keys]
                where k.ordering_key = any (array[e.ordering_key])            -- [confirm_keys]
                  and k.parked_by is not null) as parked                      -- [confirm_keys]
  from unnest($1::uuid[], $2::timestamptz[]) as s(id, token)
  join sendoff.outbox_event e on e.event_id = any (array[s.id])
 where e.due_at is not distinct from s.token
   and e.status % 2 = 0 and e.locked_by is not null
 order by e.seq                                                               -- [confirm_keys]
