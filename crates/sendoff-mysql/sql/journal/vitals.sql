-- vitals: the server's clock, and the isolation level that sessions begin with, where it is above
-- READ COMMITTED. Our own sessions are set to READ COMMITTED. Then what the server keeps of commits when
-- it crashes, where that is not all: its log, and its binary log where it has one. Index: none.
select utc_timestamp(6),
       nullif(nullif(cast(/*!80000 @@global.transaction_isolation */
                          /*M!100600 @@global.tx_isolation */ as char),
                     'READ-COMMITTED'), 'READ-UNCOMMITTED'),
       nullif(@@global.innodb_flush_log_at_trx_commit, 1),
       if(@@global.log_bin, nullif(@@global.sync_binlog, 1), null)
