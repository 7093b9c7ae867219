-- register: says that a kind (?1, ?2) is handled at ?3. Index: primary key.
-- text register
insert into outbox_handled (aggregate_type, event_type, seen_at) values (?1, ?2, ?3)
on conflict do update set seen_at = excluded.seen_at

-- registered: what somebody said so of since ?1, no more than ?2.
-- Guarantee: reads only. Index: reads all rows, of which there are as many as handlers.
-- text registered
select aggregate_type, event_type from outbox_handled where seen_at > ?1 order by seen_at desc limit ?2
