-- register: makes cursors that are not there yet; those that are stay as they are, and are
-- not waited for where somebody has locked them.
-- Index: primary key.
insert into sendoff.journal_cursor (topic, publisher, last_position)
select p.topic, p.publisher, p.position
  from unnest($1::text[], $2::text[], $3::bigint[]) as p(topic, publisher, position)
 where not exists (select from sendoff.journal_cursor c
                    where c.topic = p.topic and c.publisher = p.publisher)
 order by 1, 2
on conflict do nothing
