-- confirm: whether a row is there, pending, and held by this very token.
-- Guarantee: sees committed rows only; reads no payload. Index: unique (event_id).
select exists (select 1 from outbox_event
                where event_id = ?1 and due_at = ?2
                  and status in (0, 2) and locked_by is not null)
