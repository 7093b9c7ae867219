-- journal_fill: facts with one tag of a thousand; each hundredth position is missing, as after a
-- rollback.
with new as (
    insert into journal_event (event_id, event_type, tags, content_type, occurred_at, recorded_at,
                               payload)
    select gen_random_uuid(), 'bench.order', array['order=' || n % 1000], 'application/json', now(),
           now(), convert_to(rpad('{"order":' || n || ',"note":"', 198, 'x') || '"}', 'UTF8')
      from generate_series(1, $1::bigint) n
     where n % 100 <> 0 or nextval('journal_position') > 0
    returning position, tags
)
insert into journal_tag (tag, position)
select t.tag, new.position from new, unnest(new.tags) as t(tag)
