-- range_passed: whether everybody has passed everything in a partition, and nobody has set
-- anything of it aside. Index: the primary key of a partition of facts.
select not exists (
        select from sendoff.journal_table_partition
         where position > least((select min(last_position) from sendoff.journal_cursor),
                                (select min(position) - 1 from sendoff.journal_parked)))
