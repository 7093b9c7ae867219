-- arm: from now on writers ring.
-- Guarantee: writes only when the flag changes. Index: none, there is one row.
update sendoff.outbox_bell set asleep = true where not asleep
