-- transaction_status: what became of a transaction; NULL where the server has forgotten it.
-- Guarantee: reads the commit log, no table. Index: none.
select pg_xact_status($1::xid8)
