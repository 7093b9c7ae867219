-- arm: from now on whoever appends rings, for five minutes: who ends without a word is not rung for any
-- longer than that.
-- Guarantee: seen by everybody at once. Answers a row if it was said: not by a role that may not, nor in a
-- session that only reads. Index: none.
select setval('sendoff.journal_bell', extract(epoch from clock_timestamp())::bigint + 300)
 where has_sequence_privilege('sendoff.journal_bell', 'update')
   and current_setting('transaction_read_only') = 'off'
