-- counts: rows by status. Scans the table.
select status, count(*) from sendoff.outbox_event group by status
