-- tally_over: whether there is a type of which nothing ended since ?1.
-- tally_forget: forget those.
-- Guarantee: nothing that ended since is taken from `topics`. Index: none; there are as many rows as types.

-- text tally_over
select exists (select 1 from outbox_tally where ended_at < ?1)

-- text tally_forget
delete from outbox_tally where ended_at < ?1
