-- pauses: what is paused now, in the order of scopes and names.
-- Guarantee: what has committed; no more than ?1. Takes no lock that a writer wants. Index: primary key.
select scope, name, since, actor, reason from outbox_pause order by scope, name limit ?1
