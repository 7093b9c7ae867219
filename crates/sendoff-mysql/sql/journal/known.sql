-- known: which of these facts are there, and whether with the same type, content type, tags
-- and payload.
-- Guarantee: a locking read, which sees what is committed whatever the transaction saw before.
-- Index: unique (event_id), by a join that cannot be turned round.
select cast(w.nth as signed), cast(e.position as signed),
       cast(timestampdiff(microsecond, '1970-01-01', e.recorded_at) as signed),
       cast(unhex(sha2(concat_ws(x'00', e.event_type, e.content_type, e.tags, e.payload), 256))
                = unhex(w.digest) as signed)
  from json_table(:facts, '$[*]' columns (nth for ordinality, id char(32) path '$.i',
                                          digest char(64) path '$.d')) w
       straight_join sendoff.journal_event e force index (journal_event_id)
       on e.event_id = unhex(w.id)
 order by w.nth
/*!80001 for share of e */ /*M!100600 lock in share mode */
