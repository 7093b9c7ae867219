-- journal_gate: fails (1242) if something was found, if anchors are missing, or if this session does
-- not count one by one, as where several servers are written to.
-- Guarantee: after an error the server leaves the rest of a text out. Index: none.
set @sendoff_gate = (select 1 union all select 1 from dual
                      where @sendoff_clash is not null or @sendoff_locked <> :count
                         or @@session.auto_increment_increment <> 1)
