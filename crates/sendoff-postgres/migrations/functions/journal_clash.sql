-- The first fact above `after` that a search finds; see journal_search. Above a negative position it is 0,
-- which no fact has: what a condition rests on may be gone, whatever there is now.
-- The caller's session is not ours to rely on: the plan is made once, and only along the indexes.
create or replace function sendoff.journal_clash(
    kinds smallint[], tags text[], types text[], after bigint
)
returns bigint
language plpgsql volatile
-- include planned
as $body$
begin
    if after < 0 then
        return 0;
    end if;
    return (select s.found
              from sendoff.journal_search(kinds, tags, types, after, 9223372036854775807, 1)
                as s(found));
end
$body$;
