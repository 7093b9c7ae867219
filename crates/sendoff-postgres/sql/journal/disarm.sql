-- disarm: nobody need ring. All other tails are told: those that sleep say again that they do.
-- Guarantee: seen by everybody at once. Index: none.
select setval('sendoff.journal_bell', 1), pg_notify('sendoff_journal_channel', '')::text
 where has_sequence_privilege('sendoff.journal_bell', 'update')
   and current_setting('transaction_read_only') = 'off'
