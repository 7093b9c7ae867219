-- disarm: writers need not ring.
-- Guarantee: writes only when the flag changes. Index: none, there is one row.
update sendoff.outbox_bell set asleep = false where asleep
