-- journal_tags: tags as they are kept: a JSON array, in order of their bytes, each once. For journal_append.
-- Guarantee: the limits of every other writer, each with one error. Reads no table. Index: none.
create procedure sendoff.journal_tags(
    in  given  longtext character set utf8mb4,
    out sorted longtext character set utf8mb4,
    out many   int
)
comment 'sendoff 1'
contains sql
sql security invoker
begin
    declare last    longblob     default '';
    declare tag     longblob;
    declare ends    int;
    declare name    varchar(16)  character set utf8mb4;
    declare value   longtext     character set utf8mb4;
    declare most    int;
    declare nth     int          default 0;
    declare refusal varchar(512) character set utf8mb4;

    set sorted = '', many = 0, given = coalesce(given, '[]');
    if not coalesce(json_valid(given), 0) or json_type(given) <> 'ARRAY' then
        signal sqlstate '22023' set message_text = 'tags must be a JSON array of strings';
    end if;
    -- So many are not read one by one.
    if json_length(given) > 1024 then
        set refusal = concat('tags: ', json_length(given), ' given; the limit is 64');
        signal sqlstate '22023' set message_text = refusal;
    end if;
    while nth < json_length(given) do
        if json_type(json_extract(given, concat('$[', nth, ']'))) <> 'STRING' then
            signal sqlstate '22023' set message_text = 'tags must be a JSON array of strings';
        end if;
        if char_length(json_unquote(json_extract(given, concat('$[', nth, ']')))) = 0 then
            signal sqlstate '22023' set message_text = 'a tag is written key=value; neither may be empty';
        end if;
        set nth = nth + 1;
    end while;
    each_tag: loop
        -- The next in order.
        set tag = (select min(cast(w.tag as binary))
                     from json_table(given, '$[*]' columns (tag longtext character set utf8mb4 path '$')) w
                    where cast(w.tag as binary) > last);
        if tag is null then
            leave each_tag;
        end if;
        set last = tag, many = many + 1, ends = locate('=', convert(tag using utf8mb4));
        if ends < 2 or ends = char_length(convert(tag using utf8mb4)) then
            signal sqlstate '22023' set message_text = 'a tag is written key=value; neither may be empty';
        end if;
        set nth = 0;
        while nth < 2 do
            set name = elt(1 + nth, 'tag key', 'tag value'), most = elt(1 + nth, 64, 128),
                value = if(nth = 0, left(convert(tag using utf8mb4), ends - 1),
                                    substr(convert(tag using utf8mb4), ends + 1)),
                nth = nth + 1;
            -- include name
        end while;
        set sorted = concat(sorted, if(many > 1, ',', ''), json_quote(convert(tag using utf8mb4)));
    end loop;
    if many > 64 then
        set refusal = concat('tags: ', many, ' given; the limit is 64');
        signal sqlstate '22023' set message_text = refusal;
    end if;
    set sorted = concat('[', sorted, ']');
end
