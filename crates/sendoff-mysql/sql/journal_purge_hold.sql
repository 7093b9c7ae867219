-- journal_purge_hold: lets one transaction at a time delete. Index: primary key.
select g.position from sendoff.journal_gone g where g.one = 1 for update
