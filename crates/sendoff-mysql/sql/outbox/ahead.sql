-- ahead: the rows that `claim_except` saw, whether it got them or not.
-- Guarantee: reads no table.
select unhex(s.id) from json_table(@sendoff_ahead, '$[*]' columns (id char(32) path '$[0]')) s
