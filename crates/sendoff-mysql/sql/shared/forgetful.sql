-- forgetful: what the server keeps of commits when it crashes, where that is not all: its log, and its binary
-- log where it has one. Index: none.
select nullif(@@global.innodb_flush_log_at_trx_commit, 1),
       if(@@global.log_bin, nullif(@@global.sync_binlog, 1), null)
