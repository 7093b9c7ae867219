-- now: as journal_gate, for whoever has its locks and found nothing. Index: none.
set @sendoff_gate = exp(if(@@session.auto_increment_increment = 1, 0, 9999)),
    @sendoff_at = utc_timestamp(6)
