-- emit: one event by the function for all languages.
select sendoff_emit($1::text, $2::bytea, content_type => 'application/json', ordering_key => $3::text)
