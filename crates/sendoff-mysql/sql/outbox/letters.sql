-- Dead letters, in the order in which they died, between two times and after a place.
-- Guarantee: walks dead rows only, however many others there are; neither payload nor headers are read. What a
-- filter does not say is NULL. Errors are searched letter by letter, without patterns.
-- Index: outbox_event_aside.

-- letters, letters_newest: those that meet a filter.
-- text letters, letters_newest
select e.event_id, e.seq, e.event_type, e.aggregate_type, e.aggregate_id, e.tenant_id, e.attempts,
       e.created_at, e.done_at, e.last_error
  from {meant}
 order by e.aside_at, e.seq            -- [letters]
 order by e.aside_at desc, e.seq desc  -- [letters_newest]
 limit :limit

-- letters_count: how many of them there are, up to a limit.
-- text letters_count
select count(*)
  from (select 1
          from {meant}
         limit :limit) found

-- part meant
sendoff.outbox_event e force index (outbox_event_aside)
where e.aside = 3 and e.aside_at between :first and :last
  and (e.aside_at > :after_at or e.aside_at = :after_at and e.seq > :after_seq)  -- [letters, letters_count]
  and (e.aside_at < :after_at or e.aside_at = :after_at and e.seq < :after_seq)  -- [letters_newest]
  and (:event_type is null or e.event_type = :event_type)
  and (:aggregate_type is null or e.aggregate_type = :aggregate_type)
  and (:aggregate_id is null or e.aggregate_id = :aggregate_id)
  and (:tenant_id is null or e.tenant_id = :tenant_id)
  and (:error is null or instr(e.last_error, :error) > 0)
  and (:attempts_least is null or e.attempts >= :attempts_least)
  and (:attempts_most is null or e.attempts <= :attempts_most)
