-- gate: fails (1690) if something was found, if anchors are missing, or if this session does
-- not count one by one, as where several servers are written to; and notes the time for the insert that
-- follows.
-- Guarantee: after an error the server leaves the rest of a text out. No DOUBLE keeps e^9999, in no mode
-- of a session. Index: none.
set @sendoff_gate = exp(if(@sendoff_clash is null and @sendoff_locked = :count
                           and @@session.auto_increment_increment = 1, 0, 9999)),
    @sendoff_at = utc_timestamp(6)
