-- partition_list: every partition of the table, in order, with its end in microseconds since 1970,
-- which is NULL for the tail; and the time. No row where there is no table; a name of NULL where it
-- has no partitions. Index: the catalogue's.
select p.partition_name, p.partition_method, p.partition_expression,
       case when p.partition_description <> 'MAXVALUE'
            then timestampdiff(microsecond, '1970-01-01', trim(both '\'' from p.partition_description))
       end,
       utc_timestamp(6)
  from information_schema.partitions p
 where p.table_schema = :database and p.table_name = :table
 order by p.partition_ordinal_position
