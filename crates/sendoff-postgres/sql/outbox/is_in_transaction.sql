-- is_in_transaction: whether the mark of `in_transaction` is there.
-- Guarantee: reads nothing. Index: none.
select coalesce(current_setting('sendoff_capture.in_transaction', true) = 'yes', false) as answer
