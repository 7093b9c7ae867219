-- Forgetting what is kept beside the events. Answers how many.
-- Guarantee of both: at most as many as the limit; whoever else forgets takes other rows, and nobody waits.

-- forget_seen: what consumers saw, the oldest first. Index: inbox_event_seen; then the primary key, forced by a join.
--
-- forget_audit: what operators did, in the order of its numbers, which rise with the time: looks at no more entries
-- than the limit, old or not. One that a clock wrote that was ahead is passed by, and holds back nothing.
-- Index: primary key; the same, forced by a join.
-- text forget_seen, forget_audit
start transaction;
select json_arrayagg(json_array(hex(c.consumer), hex(c.event_id)))                               -- [forget_seen]
select json_arrayagg(json_array(c.seq))                                                          -- [forget_audit]
  into @sendoff_rows
  from (select consumer, event_id                                                                -- [forget_seen]
          from sendoff.inbox_event force index (inbox_event_seen)                                -- [forget_seen]
         where seen_at < :cutoff                                                                 -- [forget_seen]
         order by seen_at                                                                        -- [forget_seen]
  from (select seq, at                                                                           -- [forget_audit]
          from sendoff.outbox_audit force index (primary)                                        -- [forget_audit]
         where at < greatest(:cutoff, utc_timestamp(6))                                          -- [forget_audit]
         order by seq                                                                            -- [forget_audit]
         limit :limit
           for update skip locked) c;                                                            -- [forget_seen]
           for update skip locked) c                                                             -- [forget_audit]
 where c.at < :cutoff;                                                                           -- [forget_audit]
delete kept
  from json_table(@sendoff_rows, '$[*]' columns (
           consumer varchar(1024) path '$[0]',                                                   -- [forget_seen]
           id       char(32)      path '$[1]')) s                                                -- [forget_seen]
           seq      bigint        path '$[0]')) s                                                -- [forget_audit]
       straight_join sendoff.inbox_event kept force index (primary)                              -- [forget_seen]
           on kept.consumer = convert(unhex(s.consumer) using utf8mb4)                           -- [forget_seen]
              and kept.event_id = unhex(s.id);                                                   -- [forget_seen]
       straight_join sendoff.outbox_audit kept force index (primary) on kept.seq = s.seq;        -- [forget_audit]
commit;
select coalesce(json_length(@sendoff_rows), 0)
