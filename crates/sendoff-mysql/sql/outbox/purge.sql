-- Forgetting terminal rows, those that ended first of all first. Answers how many there were.
-- Guarantee of both: only terminal rows go; whoever else purges takes other rows, and nobody waits.

-- purge: delivered ones. Index: outbox_event_aside, then the primary key, forced by a join.
--
-- purge_dead: dead ones that no key waits for. A locking read would lock the keys that it looks at, so these are two
-- steps: a plain read, and a lock of exactly what it saw, if it is as dead as it was. Index: outbox_event_aside,
-- outbox_key_parked, then the primary key, forced by a join.
-- text purge, purge_dead
select json_arrayagg(json_array(hex(c.event_id), c.seq, cast(c.done_at as char)))       -- [purge_dead]
  into @sendoff_ahead                                                                   -- [purge_dead]
  from (select e.event_id, e.seq, e.done_at                                             -- [purge_dead]
          from sendoff.outbox_event e force index (outbox_event_aside)                  -- [purge_dead]
               left join sendoff.outbox_key k force index (outbox_key_parked)           -- [purge_dead]
                   on k.parked_by = e.event_id                                          -- [purge_dead]
         where e.aside = 3 and e.aside_at < :cutoff and k.ordering_key is null          -- [purge_dead]
         order by e.aside_at, e.seq                                                     -- [purge_dead]
         limit :limit) c;                                                               -- [purge_dead]
start transaction;
select json_arrayagg(json_array(hex(c.event_id), c.seq)) into @sendoff_rows             -- [purge]
  from (select event_id, seq                                                            -- [purge]
          from sendoff.outbox_event force index (outbox_event_aside)                    -- [purge]
         where aside = 1 and aside_at < :cutoff                                         -- [purge]
         order by aside_at, seq                                                         -- [purge]
         limit :limit                                                                   -- [purge]
           for update skip locked) c;                                                   -- [purge]
select json_arrayagg(json_array(s.id, s.seq)) into @sendoff_rows                        -- [purge_dead]
  from json_table(@sendoff_ahead, '$[*]' columns (                                      -- [purge_dead]
           id      char(32) path '$[0]',                                                -- [purge_dead]
           seq     bigint   path '$[1]',                                                -- [purge_dead]
           done_at char(26) path '$[2]')) s                                             -- [purge_dead]
       straight_join sendoff.outbox_event e force index (primary)                       -- [purge_dead]
           on e.event_id = unhex(s.id) and e.seq = s.seq                                -- [purge_dead]
 where e.status = 3 and e.done_at = cast(s.done_at as datetime(6))                      -- [purge_dead]
   for update /*!80001 of e */ skip locked;                                             -- [purge_dead]
delete e
  from json_table(@sendoff_rows, '$[*]' columns (
           id  char(32) path '$[0]',
           seq bigint   path '$[1]')) s
       straight_join sendoff.outbox_event e force index (primary)
           on e.event_id = unhex(s.id) and e.seq = s.seq
 where e.status in (1, 3);
commit;
select coalesce(json_length(@sendoff_rows), 0)

-- purgeable, purgeable_dead: how many rows these would forget, counted up to their limit.
-- Guarantee: reads no more rows than the limit, and those that keys wait for. Index: outbox_event_aside,
-- outbox_key_parked.
-- text purgeable, purgeable_dead
select count(*)
  from (select 1 from sendoff.outbox_event e force index (outbox_event_aside)
               left join sendoff.outbox_key k force index (outbox_key_parked)  -- [purgeable_dead]
                   on k.parked_by = e.event_id                                 -- [purgeable_dead]
         where e.aside = 3 and e.aside_at < :cutoff and k.ordering_key is null -- [purgeable_dead]
         where e.aside = 1 and e.aside_at < :cutoff                            -- [purgeable]
         limit :limit) found
