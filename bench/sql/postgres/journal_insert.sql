-- journal_insert: a fact with one tag, by hand, in one statement.
with new as (
    insert into journal_event (event_id, event_type, tags, content_type, occurred_at, recorded_at,
                               payload)
    values ($1, $2, array[$3::text], 'application/json', now(), now(), $4)
    returning position, tags
)
insert into journal_tag (tag, position)
select t.tag, new.position from new, unnest(new.tags) as t(tag)
