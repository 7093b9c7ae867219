-- vitals: the server's clock, and the isolation level that sessions begin with, where it is above
-- READ COMMITTED. Our own sessions are set to READ COMMITTED. Index: none.
select utc_timestamp(6),
       nullif(nullif(cast(/*!80000 @@global.transaction_isolation */
                          /*M!100600 @@global.tx_isolation */ as char),
                     'READ-COMMITTED'), 'READ-UNCOMMITTED')
