-- rescue: put right what a clock that has stepped back since left in the future.
-- Guarantee: held rows (?2 is the furthest a hold may reach) are due now, and who held them stays known,
-- so that their loss is counted; rows that nobody holds move back by as much as they were created ahead
-- (?3), delay and all, or are due now where no delay explains them (?4). Delays stay as they are, and rows in
-- line stay there.
-- Index: outbox_event_due.
update outbox_event
   set due_at = case when due_at >= 253339228800000000 then due_at
                     when locked_by is null and created_at > ?3 and due_at >= created_at
                     then ?1 + (due_at - created_at) else ?1 end,
       created_at = case when locked_by is null and created_at > ?3 and due_at >= created_at
                         then ?1 else created_at end
 where seq in (select seq from outbox_event indexed by outbox_event_due
                where status in (0, 2) and due_at > ?1
                  and case when due_at >= 253339228800000000 then created_at > ?3
                           when locked_by is not null then due_at > ?2
                           else due_at > ?4 or (created_at > ?3 and due_at >= created_at) end
                order by due_at, seq
                limit ?5)
