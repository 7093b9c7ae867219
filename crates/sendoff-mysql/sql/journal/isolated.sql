-- isolated: fails (1242) unless the session is at READ COMMITTED.
-- Guarantee: what a session says is not always so of the transaction that is open, because its own
-- level can be set once; the check itself therefore reads what is committed whatever the level, and
-- this keeps locks on gaps away. Index: none.
set @sendoff_clash = null, @sendoff_gate = null;
set @sendoff_gate = (select 1 union all select 1 from dual
                      where /*!80000 @@session.transaction_isolation */
                            /*M!100600 @@session.tx_isolation */
                            not in ('READ-COMMITTED', 'READ-UNCOMMITTED'))
