-- hold: take one row that `claim` just returned.
-- Guarantee: part two of a claim, in the same immediate transaction; the due time is the token. No
-- count that is stored can make it fail: past its bound one stays there.
-- Index: primary key.
update outbox_event
   set due_at = ?2, locked_by = ?3, attempts = ?4, losses = min(losses, 2147483646) + ?5
 where seq = ?1
